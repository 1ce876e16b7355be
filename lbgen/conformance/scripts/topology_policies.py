"""What holds of any rate, limit, balance and health check; requests, numbers and times come as parameters."""

from __future__ import annotations

import json
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import ClientConnection, fetch, serialize
from lbgen.conformance.judge import account_of
from lbgen.conformance.scripts.stage import eventually, ill, well
from lbgen.conformance.transport import Transport, without_verification
from lbgen.runtime.standins.http1 import CONTROL, Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.http1_client import Answer
    from lbgen.conformance.scripts.stage import Stage
    from lbgen.plan.request import Request

_QUIET = 0.2  # seconds in which a copy would have come


def rate_holds(stage: Stage) -> Iterator[str]:
    """`burst` requests pass at once, then as many as come back in the time; the others are 429."""
    burst, per_second = stage.params["burst"], stage.params["per_second"]
    begun = time.monotonic()
    found = [_ask(stage, stage.params["request"]).status for _ in range(burst + 8)]
    took = time.monotonic() - begun
    passed = sum(status != 429 for status in found)
    most = burst + int(per_second * took) + 1
    if not burst <= passed <= most:
        yield f"{passed} of {len(found)} requests passed in {took:.2f} s, expected {burst} to {most}, then 429"


def at_a_time(stage: Stage) -> Iterator[str]:
    """`most` requests are under way at a time; one more is refused (`status`) at once, and none is afterwards."""
    found = list(_held(stage))
    if found:  # what was asked before may have been under way still
        time.sleep(1)
        found = list(_held(stage))
    yield from found


def _held(stage: Stage) -> Iterator[str]:
    request: Request = stage.params["request"]
    most, status = stage.params["most"], stage.params["status"]
    hold = stage.params["hold_ms"]
    held = replace(request, headers=(*request.headers, (CONTROL, json.dumps({"mode": "hang", "wait_ms": hold}))))
    with ExitStack() as stack:
        begun = time.monotonic()
        streams = []
        for _ in range(most):
            stream = stack.enter_context(
                ClientConnection(_at(stage), client=request.client, transport=_via(stage, request))
            )
            stream.send(serialize(held))
            streams.append(stream)
            time.sleep(0.01)
        time.sleep(0.15)
        over = _ask(stage, request)
        if time.monotonic() - begun < hold / 1000 - 0.1 and over.status != status:  # else the host was too busy
            yield f"one more than {most} at a time: {over.status}, expected {status}"
        ended = Counter(stream.read_answer().status for stream in streams)
        if set(ended) != {200}:
            yield f"{most} at a time: {dict(ended)}, expected 200"
    if not eventually(lambda: _ask(stage, request).status == 200, 2):
        yield f"after they have ended: {_ask(stage, request).status}, expected 200"


def shares(stage: Stage) -> Iterator[str]:
    """Of `times` requests each pool (`by`: pool) or endpoint (name) gets its share, five deviations off at most."""
    counts: Counter[str] = Counter()
    for _ in range(stage.params["times"]):
        told = account_of(_ask(stage, stage.params["request"]))
        counts[str(told[stage.params["by"]]) if told is not None else "no endpoint"] += 1
    for name, (low, high) in stage.params["share"].items():
        if not low <= counts[name] <= high:
            yield f"{name} got {counts[name]} of {stage.params['times']}, expected {low} to {high}; all: {dict(counts)}"


def stays(stage: Stage) -> Iterator[str]:
    """Requests of one key go to one endpoint, those of many keys to several. `requests`: one for each key."""
    homes = {}
    for number, request in enumerate(stage.params["requests"]):
        names = {_name(_ask(stage, request)) for _ in range(3)}
        if len(names) > 1:
            yield f"key {number} went to {sorted(names)}"
            return
        homes[number] = names.pop()
    if stage.params["several"] and len(set(homes.values())) < 2:
        yield f"{len(homes)} keys all went to {next(iter(homes.values()))}"


def checked(stage: Stage) -> Iterator[str]:
    """An endpoint that refuses connections is left out in time, without any request failing afterwards, and serves
    again in time once it is back. Without another one the answer is 503. Where it is checked on another port, that
    refuses."""
    name, others = stage.params["name"], stage.params["others"]
    elsewhere = f"{name}-check"
    checked = elsewhere if elsewhere in stage.endpoints.listening else name
    seconds = stage.params["out_ms"] / 1000
    want = set(others) or {"503"}
    if not eventually(lambda: name in _names(stage, 12), 3):
        yield f"{name} serves nothing although it is well"
        return
    ill(stage, checked, "refuse")
    try:
        if not eventually(lambda: _names(stage, 8) <= want, seconds):
            yield f"{seconds:.1f} s after {name} failed: {sorted(_names(stage, 12))}, expected only {sorted(want)}"
    finally:
        well(stage, checked)
    seconds = stage.params["back_ms"] / 1000
    if not eventually(lambda: name in _names(stage, 12), seconds):
        yield f"{name} is back for {seconds:.1f} s and serves nothing"


def ejected(stage: Stage) -> Iterator[str]:
    """`failures` failures in a row take an endpoint out for `eject_ms`, then it serves again."""
    name, others, failures = stage.params["name"], stage.params["others"], stage.params["failures"]
    want = set(others) or {"503"}
    stage.endpoints.behave(name, Behaviour("close"))
    try:
        before = stage.endpoints.requests[name]
        for _ in range((failures + 2) * (len(others) + 1) * 4):
            _ask(stage, stage.params["request"])
            if stage.endpoints.requests[name] - before >= failures:
                break
        found = _names(stage, 4 * (len(others) + 1))
        if not found <= want:
            yield f"{name} failed {failures} times in a row: {sorted(found)}, expected only {sorted(want)}"
    finally:
        stage.endpoints.behave(name, Behaviour())
    time.sleep(stage.params["eject_ms"] / 1000)
    if not eventually(lambda: name in _names(stage, 12), 2):
        yield f"{name} serves nothing after {stage.params['eject_ms']} ms"


def mirrored(stage: Stage) -> Iterator[str]:
    """Copies of so many requests reach the other pool; the client sees nothing of it."""
    names = {x.name for x in stage.endpoints.stand_ins if x.pool == stage.params["pool"]}
    active = stage.plan.pool(stage.params["pool"]).active
    check = None if active is None else active.path

    def arrived() -> int:
        return sum(1 for x in tuple(stage.endpoints.seen) if x.name in names and x.target.partition("?")[0] != check)

    before = -1
    while before != (before := arrived()):  # copies of earlier requests may be on their way
        time.sleep(_QUIET)
    answers = Counter(_ask(stage, stage.params["request"]).status for _ in range(stage.params["times"]))
    low, high = stage.params["copies"]
    eventually(lambda: arrived() - before >= low, 2)
    time.sleep(_QUIET)
    copies = arrived() - before
    if not low <= copies <= high:
        yield f"{copies} copies of {stage.params['times']} requests, expected {low} to {high}"
    if set(answers) != {200}:
        yield f"answers {dict(answers)}, expected 200"


def _via(stage: Stage, request: Request) -> Transport:
    return stage.transport(
        request.listener, request, without_verification(stage.plan.listener(request.listener), request)
    )


def _at(stage: Stage) -> tuple[str, int]:
    request: Request = stage.params["request"]
    return stage.at[request.listener]


def _ask(stage: Stage, request: Request) -> Answer:
    return fetch(stage.at[request.listener], request, transport=_via(stage, request))


def _name(answer: Answer) -> str:
    told = account_of(answer)
    return str(told["name"]) if told is not None else str(answer.status)


def _names(stage: Stage, count: int) -> set[str]:
    """The endpoints that answer `count` requests, or the statuses that come without one."""
    return {_name(_ask(stage, stage.params["request"])) for _ in range(count)}
