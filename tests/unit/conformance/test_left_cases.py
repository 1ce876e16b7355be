"""Which cases ask for what a listener leaves to its engine, and what remains asked of the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from lbgen.conformance.case import Case, Expect, case_files
from lbgen.conformance.http1_client import Answer
from lbgen.conformance.left_cases import guarantee_of, is_loose_difference, leave_to_engine
from lbgen.conformance.own_answers import loose_differences
from lbgen.conformance.prepare import plan_of
from lbgen.conformance.scripts.context import ScriptContext, has_phrase, own_status
from lbgen.plan.guarantees import Guarantee
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate
from lbgen.records import replace
from lbgen.runtime.standins.http1 import NAME
from lbgen.runtime.standins.server import StandInServers

DATA: dict[str, Any] = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 8080}},
    "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [{"name": "all", "match": [{"path": {"prefix": "/a"}}], "forward": "app"}],
    "guarantees": "engine",
}
NATIVE = plan_of(DATA)
REFUSED = Expect(refused=True)


def case(target: str = "/a", *headers: tuple[str, str], **more: Any) -> Case:
    request = Request("GET", target, (("Host", "h"), *headers))
    return Case(**{"id": "x", "clause": "x", "request": request, "expect": Expect(), **more})


def asks(one: Case) -> Guarantee | None:
    return guarantee_of(one, NATIVE, NATIVE.listener("web"))


@pytest.mark.parametrize(
    ("one", "guarantee"),
    [
        (case("/a//b"), Guarantee.PATHS),
        (case("http://h/a"), Guarantee.PATHS),
        (case("/a", ("Connection", "x-b"), ("X-B", "1")), Guarantee.CONNECTION_OPTIONS),
        (case("/a", ("Connection", "host")), Guarantee.CONNECTION_OPTIONS),
        (case("/a", ("Connection", "close, Keep-Alive")), None),
        (case("/a", ("Content-Length", "x")), Guarantee.FRAMING),
        (case(raw=b"GET /\r\n", expect=REFUSED), Guarantee.FRAMING),
        (case(raw=b"GET / HTTP/1.1\r\n", expect=Expect(status=200), features=("framing.chunked",)), None),
        (case(script="x", features=("framing.malformed.bare_lf",)), Guarantee.FRAMING),
        (case(script="x", features=("statuses.failures.server",)), Guarantee.ANSWERS),
        (case(script="x", features=("pool.backup",)), None),
        (case(script="x", guarantee=Guarantee.FRAMING), Guarantee.FRAMING),
        (case("/nowhere"), None),
        (case("/a"), None),
    ],
)
def test_what_a_case_asks_for(one: Case, guarantee: Guarantee | None) -> None:
    assert asks(one) == guarantee
    exact = plan_of({**DATA, "guarantees": "contract"})
    assert guarantee_of(one, exact, exact.listener("web")) is None


def test_all_files_can_be_left_to_the_engine() -> None:
    """Most cases ask for none of the four; those that set `paths` keep that guarantee."""
    asked: Counter[Guarantee | None] = Counter()
    for file in leave_to_engine(case_files()):
        plan = plan_of(file.topology)
        for one in file.cases:
            asked[guarantee_of(one, plan, plan.listener(one.request.listener or plan.listeners[0].name))] += 1
        written = {f"listeners.{name}" for name, each in file.topology["listeners"].items() if "paths" in each}
        assert all(x.guarantees.paths for x in plan.listeners if x.field in written)
    assert all(asked[each] for each in Guarantee)
    assert asked[None] > 3 * (asked.total() - asked[None])


def differences(status: int | None, one: Case) -> list[str] | None:
    outcome = simulate(NATIVE, one.request)
    assert outcome.loose
    return loose_differences(one.expect, outcome, Answer(status, body=b"<html>"))


def test_of_an_answer_of_the_engine_the_class_counts() -> None:
    assert differences(404, case("/nowhere")) == []
    assert differences(400, case("/nowhere")) == []
    assert differences(503, case("/nowhere")) == ["status 503, expected 404 or one of its class (no rule takes it)"]
    assert differences(503, case(expect=Expect(fault=502))) == []
    assert differences(404, case(expect=Expect(fault=502))) != []
    assert differences(200, case()) is None, "an endpoint has to answer"


def test_what_a_field_asks_for_keeps_its_status() -> None:
    data = {**DATA, "routes": [{**DATA["routes"][0], "access": {"deny": ["127.0.0.0/8"]}}]}
    outcome = simulate(plan_of(data), case().request)
    for status, fine in ((403, True), (404, False)):
        assert (loose_differences(Expect(), outcome, Answer(status)) == []) is fine


def test_scripts_take_another_error_of_the_class_for_that_of_the_contract() -> None:
    left, kept = (
        ScriptContext({}, StandInServers(()), plan_of({**DATA, "guarantees": each}), list)
        for each in ("engine", "contract")
    )
    own = Answer(502, body=b"<html>")
    assert (own_status(left, own, 503), own_status(kept, own, 503)) == (503, 502)
    assert own_status(left, Answer(404), 503) == 404
    assert own_status(left, Answer(503), 429) == 503
    assert own_status(left, Answer(502, headers=((NAME.lower(), "p-0"),), body=b"{}"), 503) == 502, "an endpoint's own"
    assert has_phrase(left, own)
    assert not has_phrase(kept, own)
    assert has_phrase(kept, Answer(502, body=b"Bad Gateway\n"))


def test_outcomes_of_the_contract_stay_what_they_are() -> None:
    exact = plan_of({**DATA, "guarantees": "contract"})
    for one in (case("/a//b"), case("/nowhere"), case("/a", ("Connection", "x-b"), ("X-B", "1"))):
        found = simulate(NATIVE, one.request)
        assert found.left is not None
        assert simulate(exact, one.request).left is None
        assert replace(found, left=None, loose=False) == simulate(exact, one.request)


@pytest.mark.parametrize(
    ("found", "loose"),
    [
        ("one more than 3: 502 b'<html>', expected 503", True),
        ("answers [502, 502], expected 504", True),
        ("one more than 3: 200 b'', expected 503", False),
        ("a third request at a time: 503 b'', expected 429", False),
        ("a third request at a time: 429 b'<html>', expected 429", True),
        ("no answer and the connection stays open", False),
    ],
)
def test_a_script_that_found_another_error_of_the_class(found: str, loose: bool) -> None:
    assert is_loose_difference(found) is loose
