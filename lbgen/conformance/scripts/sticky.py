"""Clients that keep a cookie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import fetch
from lbgen.conformance.scripts.stage import eventually, get, ill, told_of, well
from lbgen.runtime.standins.http1 import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.http1_client import Answer
    from lbgen.conformance.scripts.stage import Stage


def _cookie(answer: Answer, name: str) -> str | None:
    """The value that the answer sets."""
    values = [v.partition(";")[0].partition("=") for v in answer.lines("set-cookie")]
    return next((value for found, _, value in values if found == name), None)


def _asked(stage: Stage, value: str, *more: tuple[str, str]) -> Answer:
    name = stage.params["cookie"]
    return fetch(stage.at["web"], get(f"/{stage.params['pool']}", ("Cookie", f"{name}={value}"), *more))


def sticky_session(stage: Stage) -> Iterator[str]:
    """What is set leads back to the endpoint that set it, for every endpoint."""
    target, name = f"/{stage.params['pool']}", stage.params["cookie"]
    homes: dict[str, str] = {}
    for _ in range(24):
        answer = fetch(stage.at["web"], get(target))
        homes[told_of(answer, "name")] = _cookie(answer, name) or ""
    if len(homes) != len(stage.plan.pool(stage.params["pool"]).endpoints) or len(set(homes.values())) != len(homes):
        yield f"cookies by endpoint: {homes}"
    for home, value in homes.items():
        found = [told_of(_asked(stage, value), "name") for _ in range(4)]
        if found != [home] * 4:
            yield f"the cookie of {home} leads to {found}"


def _moved(stage: Stage, sick: str, sound: str, why: str) -> Iterator[str]:
    """A cookie of the endpoint that is out: the other one answers and sets its own."""
    name = stage.params["cookie"]
    ids = [endpoint.cookie_value for endpoint in stage.plan.pool(stage.params["pool"]).endpoints]
    answer = _asked(stage, ids[0])
    if (told_of(answer, "name"), _cookie(answer, name)) != (sound, ids[1]):
        yield f"{sick} is {why}: {told_of(answer, 'name')} answers, cookie {_cookie(answer, name)}, expected {ids[1]}"
    stays = _asked(stage, ids[1])
    if told_of(stays, "name") != sound or _cookie(stays, name) is not None:
        yield f"the cookie of {sound} is kept while {sick} is {why}: {told_of(stays, 'name')}, {_cookie(stays, name)}"


def sticky_endpoint_down(stage: Stage) -> Iterator[str]:
    """A client of an endpoint that is down gets another one and its cookie; later its old cookie is good again."""
    pool = stage.params["pool"]
    sick, sound = f"{pool}-0", f"{pool}-1"
    home = stage.plan.pool(pool).endpoints[0].cookie_value
    if not eventually(lambda: told_of(_asked(stage, home), "name") == sick):
        yield f"the cookie of {sick} leads to {told_of(_asked(stage, home), 'name')}"
        return
    ill(stage, sick, "check 500")
    try:
        if not eventually(lambda: told_of(_asked(stage, home), "name") == sound):
            yield f"{sick} is down, and its cookie leads to {told_of(_asked(stage, home), 'name')}"
            return
        yield from _moved(stage, sick, sound, "down")
    finally:
        well(stage, sick)
    if not eventually(lambda: told_of(_asked(stage, home), "name") == sick):
        yield f"{sick} is back, and its cookie leads to {told_of(_asked(stage, home), 'name')}"


def sticky_endpoint_ejected(stage: Stage) -> Iterator[str]:
    """The same for an endpoint that failed in traffic (two failures in a row, for 1500 ms)."""
    pool = stage.params["pool"]
    sick, sound = f"{pool}-0", f"{pool}-1"
    home = stage.plan.pool(pool).endpoints[0].cookie_value
    failing = (CONTROL, '{"mode": "close"}')
    found = [_asked(stage, home, failing).status for _ in range(2)]
    if found != [502, 502]:
        yield f"a cookie of {sick}, which fails: {found}, expected 502 twice"
    yield from _moved(stage, sick, sound, "ejected")
    if not eventually(lambda: told_of(_asked(stage, home), "name") == sick):
        yield f"{sick} is back, and its cookie leads to {told_of(_asked(stage, home), 'name')}"
