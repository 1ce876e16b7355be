"""Ejection, endpoint limits and slow start beside active checks, and the end of an ejection."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from lbgen.conformance.http1_client import fetch
from lbgen.conformance.scripts.context import (
    CHECK,
    HANDOVER,
    OK,
    TAKES_HOLD,
    ScriptContext,
    broken_endpoint,
    count_answers,
    get,
    own_status,
    reaches_endpoint,
    restore_endpoint,
    slow_start_shares,
    wait_until,
)
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.stand_in import Behaviour

_FAILING = (CONTROL, '{"mode": "close"}')


@contextmanager
def _checked_out(ctx: ScriptContext) -> Iterator[bool]:
    """While an endpoint of another pool is taken out by its checks; whether that came about."""
    other = ctx.params["checked"]
    with broken_endpoint(ctx, f"{other}-0", "check 500"):
        yield wait_until(lambda: count_answers(ctx, f"/{other}", 6)[f"{other}-1"] == 6)


def _ejected(ctx: ScriptContext, broken: str, target: str) -> bool:
    """Have real traffic fail, checks alone not, until that one of two endpoints is out, and make it healthy again."""
    time.sleep(HANDOVER)
    ctx.endpoints.behave(broken, Behaviour("close"))
    ctx.endpoints.behave(broken, OK, path=CHECK)
    try:
        return wait_until(lambda: count_answers(ctx, target, 6)[f"{broken[:-1]}1"] == 6)
    finally:
        restore_endpoint(ctx, broken)


def ejected_beside_checks(ctx: ScriptContext) -> Iterator[str]:
    """An ejected endpoint stays out (for 20 s) while checks take out one of another pool."""
    broken, target = f"{ctx.params['pool']}-0", f"/{ctx.params['pool']}"
    if not _ejected(ctx, broken, target):
        yield f"{broken} fails and is not ejected"
        return
    with _checked_out(ctx) as out:
        time.sleep(HANDOVER)
        found = count_answers(ctx, target, 10)
        if not out or found[broken]:
            yield f"ejected, then a check took out another pool's endpoint ({out}): {dict(found)}"


def places_beside_checks(ctx: ScriptContext) -> Iterator[str]:
    """A place that is taken stays taken while checks take out an endpoint of another pool."""
    target = f"/{ctx.params['pool']}"
    control = (CONTROL, '{"mode": "hang", "wait_ms": 4000}')
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(fetch, ctx.at["web"], get(target, control), timeout=8)
        with _checked_out(ctx) as out:
            time.sleep(HANDOVER)
            found = fetch(ctx.at["web"], get(target))
            busy = held.done()
        if (not out or own_status(found, 503) != 503) and not busy:
            yield f"the only place is taken, then a check took out another pool's endpoint ({out}): {found.status}"
        if held.result().status != 200:
            yield f"the request under way: {held.result().status}"


def slow_start_after_ejection(ctx: ScriptContext) -> Iterator[str]:
    """Over `slow_start` (3 s) an endpoint that was ejected gets less than its share, too."""
    back, target = f"{ctx.params['pool']}-0", f"/{ctx.params['pool']}"
    if not _ejected(ctx, back, target):
        yield f"{back} fails and is not ejected"
        return
    if not wait_until(lambda: count_answers(ctx, target, 4)[back] > 0, 8):
        yield "it does not come back"
        return
    yield from slow_start_shares(ctx, back, target)


def _out(ctx: ScriptContext, target: str) -> float:
    """Fail three times at the only endpoint of a pool, which ejects it; when that was."""
    for _ in range(3):
        fetch(ctx.at["web"], get(target, _FAILING))
    begun = time.monotonic()
    time.sleep(TAKES_HOLD)
    return begun


def ejection_ends_in_time(ctx: ScriptContext) -> Iterator[str]:
    """The only endpoint of a pool is back after `eject_for` (1.5 s), neither before nor much later."""
    target = f"/{ctx.params['pool']}"
    begun = _out(ctx, target)
    if not wait_until(lambda: fetch(ctx.at["web"], get(target)).status == 200):
        yield "it does not come back"
    elif not 1.3 <= (took := time.monotonic() - begun) <= 1.9:
        yield f"back after {took:.1f} s, expected 1.5 s"


def ejection_begins_anew(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint that came back fails three times again before it is out again."""
    target = f"/{ctx.params['pool']}"
    _out(ctx, target)
    if not wait_until(lambda: reaches_endpoint(ctx, get(target, _FAILING))):
        yield "it does not come back"
        return
    time.sleep(TAKES_HOLD)
    if (status := fetch(ctx.at["web"], get(target)).status) != 200:
        yield f"one failure after it came back: {status}, expected 200"
