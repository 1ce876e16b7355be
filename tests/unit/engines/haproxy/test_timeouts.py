"""Timeouts of a route: those of HAProxy's timers, and those of the filter."""

from __future__ import annotations

import pytest

from lbgen.conformance.prepare import plan_of
from lbgen.engines.haproxy import ENGINE
from lbgen.engines.haproxy.timeouts import connect_time, filter_times, is_idle_cut_short, server_timeout
from lbgen.engines.verdicts import judge
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, HeaderEdits, Target, Timeouts
from lbgen.plan.policy import Retries, RetryCause

ON_TIMEOUT = Retries(1, frozenset({RetryCause.TIMEOUT}), ())
ON_STATUS = Retries(1, frozenset(), (503,))


def forward(response: int, idle: int, request: int = 0, retries: Retries | None = None) -> Forward:
    target = Target("p", 1, HeaderEdits(), "")
    return Forward((target,), Timeouts(1_000, response, idle, request), retries=retries)


@pytest.mark.parametrize(
    ("action", "own", "filter_keeps"),
    [
        (forward(5_000, 5_000), 5_000, ""),
        (forward(5_000, 60_000), 0, "5000 60000 0 0"),
        (forward(60_000, 5_000), 0, "60000 5000 0 0"),
        (forward(5_000, 0), 0, "5000 0 0 0"),
        (forward(0, 5_000), 0, "0 5000 0 0"),
        (forward(0, 0), 0, ""),
        (forward(5_000, 5_000, 9_000), 0, "5000 5000 9000 9000"),
        (forward(5_000, 60_000, 0, ON_STATUS), 0, "5000 60000 0 0"),
        (forward(5_000, 60_000, 0, ON_TIMEOUT), 5_000, ""),
        (forward(60_000, 5_000, 0, ON_TIMEOUT), 60_000, "0 5000 0 0"),
        (forward(5_000, 5_000, 2_000, ON_TIMEOUT), 2_000, "0 0 0 2000"),
    ],
)
def test_one_timer_or_the_filter(action: Forward, own: int, filter_keeps: str) -> None:
    assert server_timeout(action.timeouts, action.retries) == own
    assert filter_times(action) == filter_keeps


def test_a_connection_takes_no_longer_than_the_request() -> None:
    assert connect_time(Timeouts(3_000, 1, 1, 700)) == 700
    assert connect_time(Timeouts(0, 1, 1, 700)) == 700
    assert connect_time(Timeouts(3_000, 1, 1)) == 3_000


def test_only_a_longer_silence_beside_retries_falls_short() -> None:
    assert is_idle_cut_short(forward(5_000, 60_000, 0, ON_TIMEOUT))
    assert not is_idle_cut_short(forward(60_000, 5_000, 0, ON_TIMEOUT))
    assert not is_idle_cut_short(forward(5_000, 60_000))


@pytest.mark.parametrize(
    ("times", "idle", "version", "parts"),
    [
        ({"client_header": "5s", "client_body": "9s"}, "9s", "2.8", []),
        ({"client_header": "9s", "client_body": "9s"}, "9s", "2.8", []),
        ({"client_header": "9s", "client_body": "5s"}, "5s", "2.8", ["head"]),
        ({"client_header": "0s", "client_body": "5s"}, "5s", "2.8", ["head"]),
        ({"client_header": "9s", "client_body": "0s"}, "0s", "2.8", []),
        ({"client_header": "5s", "client_body": "9s"}, "8s", "2.8", ["reading"]),
        ({"client_header": "5s", "client_body": "9s"}, "10s", "2.8", ["reading"]),
        ({"client_header": "5s", "client_body": "9s"}, "0s", "2.8", ["reading"]),
        ({"client_header": "5s", "client_body": "9s", "keepalive": "10s"}, "9s", "2.8", []),
        ({"client_header": "5s", "client_body": "9s", "keepalive": "10s"}, "9s", "2.6", ["kept"]),
        ({"client_header": "5s", "client_body": "9s", "keepalive": "9s"}, "9s", "2.6", []),
    ],
)
def test_the_one_time_for_clients_is_told_where_it_conflicts(times, idle, version, parts) -> None:
    plan = plan_of(_topology({"timeouts": {"keepalive": "1s", **times}}, idle))
    found = [o for o in ENGINE.objections(plan, version) if o.feature is Feature.CLIENT_TIMEOUTS]
    assert [part for o in found for part, _ in o.verdict.differs] == [f"listener.timeouts.{part}" for part in parts]
    assert {o.field for o in found} <= {"listeners.web.timeouts"}


def test_times_for_clients_that_nobody_wrote_stop_nothing() -> None:
    answers, findings = judge(plan_of(_topology({}, "10s")), ENGINE, "2.8")
    told = [a.verdict.note for a in answers if a.place and a.feature is Feature.CLIENT_TIMEOUTS]
    assert told == ["a client may pause for 60 s (client_body) while it reads, on r not for 10 s (idle)"]
    assert not findings


def _topology(listener: dict[str, object], idle: str) -> dict[str, object]:
    return {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 80, **listener}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "r", "forward": "p", "timeouts": {"response": idle, "idle": idle}}],
    }
