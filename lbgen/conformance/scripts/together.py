"""What ejection, places and slow start are to each other and to active checks, and how an ejection ends."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lbgen.conformance.http1_client import fetch
from lbgen.conformance.scripts.stage import (
    CHECK,
    HANDOVER,
    OK,
    TAKES_HOLD,
    answers,
    eased_in,
    eventually,
    get,
    ill,
    well,
)
from lbgen.runtime.standins.http1 import CONTROL, Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage

_FAILING = (CONTROL, '{"mode": "close"}')


@contextmanager
def _checked_out(stage: Stage) -> Iterator[bool]:
    """While an endpoint of another pool is taken out by its checks; whether that came about."""
    other = stage.params["checked"]
    ill(stage, f"{other}-0", "check 500")
    try:
        yield eventually(lambda: answers(stage, f"/{other}", 6)[f"{other}-1"] == 6)
    finally:
        well(stage, f"{other}-0")


def _ejected(stage: Stage, sick: str, target: str) -> bool:
    """Have real traffic fail, checks alone not, until that one of two endpoints is out, and make it well again."""
    time.sleep(HANDOVER)
    stage.endpoints.behave(sick, Behaviour("close"))
    stage.endpoints.behave(sick, OK, path=CHECK)
    try:
        return eventually(lambda: answers(stage, target, 6)[f"{sick[:-1]}1"] == 6)
    finally:
        well(stage, sick)


def ejected_beside_checks(stage: Stage) -> Iterator[str]:
    """An ejected endpoint stays out (for 20 s) while checks take out one of another pool."""
    sick, target = f"{stage.params['pool']}-0", f"/{stage.params['pool']}"
    if not _ejected(stage, sick, target):
        yield f"{sick} fails and is not ejected"
        return
    with _checked_out(stage) as out:
        time.sleep(HANDOVER)
        found = answers(stage, target, 10)
        if not out or found[sick]:
            yield f"ejected, then a check took out another pool's endpoint ({out}): {dict(found)}"


def places_beside_checks(stage: Stage) -> Iterator[str]:
    """A place that is taken stays taken while checks take out an endpoint of another pool."""
    target = f"/{stage.params['pool']}"
    control = (CONTROL, '{"mode": "hang", "wait_ms": 4000}')
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(fetch, stage.at["web"], get(target, control), timeout=8)
        with _checked_out(stage) as out:
            time.sleep(HANDOVER)
            found = fetch(stage.at["web"], get(target))
            busy = held.done()
        if (not out or found.status != 503) and not busy:
            yield f"the only place is taken, then a check took out another pool's endpoint ({out}): {found.status}"
        if held.result().status != 200:
            yield f"the request under way: {held.result().status}"


def slow_start_after_ejection(stage: Stage) -> Iterator[str]:
    """Over `slow_start` (3 s) an endpoint that was ejected gets less than its share, too."""
    back, target = f"{stage.params['pool']}-0", f"/{stage.params['pool']}"
    if not _ejected(stage, back, target):
        yield f"{back} fails and is not ejected"
        return
    if not eventually(lambda: answers(stage, target, 4)[back] > 0, 8):
        yield "it does not come back"
        return
    yield from eased_in(stage, back, target)


def _out(stage: Stage, target: str) -> float:
    """Fail three times at the only endpoint of a pool, which ejects it; when that was."""
    for _ in range(3):
        fetch(stage.at["web"], get(target, _FAILING))
    begun = time.monotonic()
    time.sleep(TAKES_HOLD)
    return begun


def ejection_ends_in_time(stage: Stage) -> Iterator[str]:
    """The only endpoint of a pool is back after `eject_for` (1.5 s), neither before nor much later."""
    target = f"/{stage.params['pool']}"
    begun = _out(stage, target)
    if not eventually(lambda: fetch(stage.at["web"], get(target)).status == 200):
        yield "it does not come back"
    elif not 1.3 <= (took := time.monotonic() - begun) <= 1.9:
        yield f"back after {took:.1f} s, expected 1.5 s"


def ejection_begins_anew(stage: Stage) -> Iterator[str]:
    """An endpoint that came back fails three times again before it is out again."""
    target = f"/{stage.params['pool']}"
    _out(stage, target)
    if not eventually(lambda: fetch(stage.at["web"], get(target, _FAILING)).status == 502):
        yield "it does not come back"
        return
    time.sleep(TAKES_HOLD)
    if (status := fetch(stage.at["web"], get(target)).status) != 200:
        yield f"one failure after it came back: {status}, expected 200"
