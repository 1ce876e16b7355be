"""What a topology allows a fault to do, and what is found outside of that."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.bench.faults import SECONDS, Fault
from lbgen.bench.faults.envelope import Envelope, envelope_of
from lbgen.bench.faults.report import Drill, FaultReport, Outcome, Window, allowed, buckets, excesses
from lbgen.bench.report import MeasuredEngine, this_machine
from lbgen.bench.tables import fault_tables, faults_to_markdown
from lbgen.bench.target import choose_target
from lbgen.html.bench_page import faults_to_html
from tests.support.plans import topology

WINDOW = Window(1.0, 4.0)
ALL = {"max": 1, "on": ["connect_failure", "reset", "timeout", 503]}


def envelope(fault: Fault, count: int = 2, pool=None, route=None, **top) -> Envelope:
    endpoints = [{"address": f"10.0.0.{n + 1}:80", "weight": n + 1} for n in range(count)]
    plan = lbgen.plan(lbgen.load(topology(route, pool={"endpoints": endpoints, **(pool or {})}, **top)))
    return envelope_of(plan, choose_target(plan), fault)


def line(failing=lambda due: False, took: float = 0.002) -> list[Outcome]:
    """100 requests/s, of which those fail."""
    return [Outcome(n / 100, took, 502 if failing(n / 100) else 200) for n in range(550)]


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.FLAP, Fault.UNAVAILABLE])
def test_an_endpoint_fails_its_share_where_nothing_tries_again(fault: Fault) -> None:
    half = 1 if fault is Fault.RESET else 2
    assert envelope(fault).share == pytest.approx(1 / 3 / half)
    assert envelope(fault, 1).share == 1 / half
    assert envelope(fault, pool={"balance": "source_hash"}).share == 1 / half
    assert envelope(fault, pool={"balance": "least_connections"}).share == 1 / half


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.FREEZE, Fault.UNAVAILABLE])
def test_retries_hide_it_behind_another_endpoint(fault: Fault) -> None:
    times = {"response": "1s", "idle": "1s"}
    assert envelope(fault, route={"retries": ALL, "timeouts": times}).share == 0
    assert envelope(fault, 1, route={"retries": ALL, "timeouts": times}).share > 0
    assert envelope(fault, route={"retries": {**ALL, "budget": 20}, "timeouts": times}).share > 0
    assert envelope(fault, route={"retries": {"max": 1, "on": [500]}, "timeouts": times}).share > 0


def test_an_endpoint_that_flaps_cuts_few_requests_where_others_are_tried() -> None:
    found = envelope(Fault.FLAP, route={"retries": ALL})
    assert found.most == 6
    assert len(excesses(line(lambda due: 1 <= due < 1.06), WINDOW, found)) == 0
    assert len(excesses(line(lambda due: 1 <= due < 1.07), WINDOW, found)) == 1


@pytest.mark.parametrize(
    ("times", "count", "share", "slowest"),
    [
        ({"response": "60s", "idle": "60s"}, 2, 0, 3.0),
        ({"response": "1s", "idle": "1s"}, 2, 1 / 3, 1.0),
        ({"response": "60s", "idle": "60s", "request": "2s"}, 2, 1 / 3, 2.0),
        ({"response": "1s", "idle": "1s"}, 1, 1.0, 1.0),
    ],
)
def test_a_frozen_endpoint_costs_the_response_time(times, count: int, share: float, slowest: float) -> None:
    found = envelope(Fault.FREEZE, count, route={"timeouts": times})
    assert (found.share, found.slowest) == (pytest.approx(share), slowest)


def test_a_slow_endpoint_is_late_by_half_the_response_time() -> None:
    assert envelope(Fault.SLOW).slowest == 0.5
    quick = envelope(Fault.SLOW, route={"timeouts": {"response": "200ms", "idle": "200ms"}})
    assert (quick.share, quick.slowest) == (0.0, 0.1)
    cut = envelope(Fault.SLOW, route={"timeouts": {"request": "300ms"}})
    assert (cut.share, cut.slowest) == (pytest.approx(1 / 3), 0.3)


def test_checks_bound_a_fault() -> None:
    passive = {"health": {"passive": {"failures": 3, "eject_for": "30s"}}}
    assert envelope(Fault.RESET, pool=passive).most is not None
    assert envelope(Fault.UNAVAILABLE, pool=passive).most is None
    assert envelope(Fault.RESET, 1, pool=passive).after == 31.0
    check = {"path": "/healthz", "interval": "200ms", "timeout": "100ms", "fall": 2, "rise": 2}
    assert envelope(Fault.RESET, pool={"health": {"active": check}}).seconds == pytest.approx(1.6)
    assert (
        envelope(Fault.RESET, pool={"health": {"active": {key: check[key] for key in check if key != "path"}}}).seconds
        is None
    )


def test_faults_of_clients_and_of_the_engine() -> None:
    assert envelope(Fault.RELOAD).share == envelope(Fault.SLOW_CLIENTS).share == 0
    assert envelope(Fault.KILL).share == 1
    limited = envelope(Fault.RELOAD, route={"rate_limit": {"rate": "10/s", "key": "client_ip"}})
    assert (limited.share, limited.slowest) == (1.0, None)


def test_what_is_outside_the_envelope_is_said() -> None:
    third = Envelope(1 / 3, "")
    dice = line(lambda due: 1 <= due < 4 and round(due * 100) % 3 == 0)
    assert excesses(dice, WINDOW, third) == ()
    assert allowed(dice, WINDOW, third) < 160
    assert excesses(line(lambda due: 1 <= due < 4), WINDOW, third) == (
        f"300 requests failed, and {allowed(dice, WINDOW, third)} may",
    )
    (said,) = excesses(line(lambda due: 4.5 < due < 4.6), WINDOW, third)
    assert said == "9 requests failed at 4.5 to 4.6 s, where none may"
    assert excesses(line(lambda due: due == 2.0), WINDOW, Envelope(0.0, "")) == ("1 requests failed, and 0 may",)
    late = [*line()[:200], Outcome(2.0, 0.6, 200)]
    assert excesses(late, WINDOW, Envelope(0.0, "")) == ("a request took 0.60 s, and 0.50 s may be",)
    assert excesses(late, WINDOW, Envelope(0.0, "", 0.5)) == ()


def test_the_timeline_counts_answers_when_they_come_and_failures_when_they_were_due() -> None:
    frozen = [x if not 1 <= x.due < 2 else Outcome(x.due, 2.0 - x.due, 200) for x in line()]
    found = buckets(frozen)
    assert [x.answered_per_second for x in found] == [100, 100, 0, 0, 300, *[100] * 6]
    assert found[2].p99_ms == pytest.approx(1000, rel=0.02)
    assert [x.failed for x in buckets(line(lambda due: 1 <= due < 1.5))] == [0, 0, 50, *[0] * 8]


def drilled(*drills: Drill) -> FaultReport:
    """A report of these drills on nginx and HAProxy."""
    target = choose_target(lbgen.plan(lbgen.load(topology())))
    about = {"name": "drill", "route": target.route, "target": target.target, "rate": 100, "seconds": SECONDS}
    engines = (MeasuredEngine("nginx", "1.31.3", 9), MeasuredEngine("haproxy", "2.8.25", 9))
    return FaultReport(**about, **this_machine(), engines=engines, not_measured=(), faults=drills)


def test_a_report_in_all_forms() -> None:
    bad = tuple(line(lambda due: 1 <= due < 4))
    found = drilled(
        Drill.of("nginx", Fault.RESET, Envelope(1.0, "alone"), bad, WINDOW, 100),
        Drill.of("haproxy", Fault.RESET, Envelope(0.0, "alone"), bad, WINDOW, 100),
    )
    assert found.exit_code == 4
    (table,) = fault_tables(found)
    assert [row.figures[0].text for row in table.rows] == ["300", "300"]
    assert [row.figures[-1].text for row in table.rows] == ["within", "outside"]
    assert table.rows[0].figures[-2].text == "██▁▁▁▁▁▁███"
    assert [x.excesses for x in found.faults] == [(), ("300 requests failed, and 0 may",)]
    for text in (faults_to_markdown(found), faults_to_html(found)):
        assert "reset, haproxy: 300 requests failed, and 0 may" in text
