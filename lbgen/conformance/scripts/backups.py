"""Backups, drained endpoints and slow start."""

from __future__ import annotations

import time
from collections.abc import Iterator

from lbgen.conformance.scripts.context import (
    ScriptContext,
    break_endpoint,
    broken_endpoint,
    count_answers,
    restore_endpoint,
    slow_start_shares,
    wait_until,
)


def backup_serves_alone(ctx: ScriptContext) -> Iterator[str]:
    """A backup gets requests only while every other endpoint is out. Of `pool` the last endpoint is the backup."""
    pool, count = ctx.params["pool"], ctx.params["endpoints"]
    others = [f"{pool}-{n}" for n in range(count - 1)]
    backup, target = f"{pool}-{count - 1}", f"/{pool}"

    def shared(count: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for number in range(count):
            for name, times in count_answers(ctx, f"{target}?k={number}", 1, ("X-Key", str(number))).items():
                found[name] = found.get(name, 0) + times
        return found

    if not wait_until(lambda: set(shared(4)) <= set(others)):
        yield f"all are healthy: {shared(12)}, expected nothing from {backup}"
        return
    found = shared(20)
    if set(found) != set(others):
        yield f"all are healthy: {found}, expected {others}"
    try:
        for name in others[:-1]:
            break_endpoint(ctx, name, ctx.params["how"])
        if others[:-1] and not wait_until(lambda: set(shared(6)) == {others[-1]}):
            yield f"{others[:-1]} are out: {shared(12)}, expected only {others[-1]}"
        break_endpoint(ctx, others[-1], ctx.params["how"])
        if not wait_until(lambda: set(shared(6)) == {backup}):
            yield f"all but the backup are out: {shared(12)}, expected only {backup}"
    finally:
        for name in others:
            restore_endpoint(ctx, name)
    if not wait_until(lambda: set(shared(8)) == set(others)):
        yield f"all are healthy again: {shared(12)}, expected {others}"


def drained_serves_nobody_new(ctx: ScriptContext) -> Iterator[str]:
    """An endpoint of weight 0 gets no request even when no other is up: 503. Of `pool` the first one is drained."""
    pool = ctx.params["pool"]
    target = f"/{pool}"
    if not wait_until(lambda: count_answers(ctx, target, 10) == {f"{pool}-1": 10}):
        yield f"weight 0 beside weight 1: {dict(count_answers(ctx, target, 10))}"
    with broken_endpoint(ctx, f"{pool}-1", "check 500"):
        if not wait_until(lambda: count_answers(ctx, target, 4) == {"503": 4}):
            yield f"the only endpoint with a weight is out: {dict(count_answers(ctx, target, 6))}, expected 503"
    wait_until(lambda: count_answers(ctx, target, 2)["503"] == 0)


def slow_start(ctx: ScriptContext) -> Iterator[str]:
    """Over `slow_start` (3 s) an endpoint that came back gets less than its share, then all of it."""
    pool = ctx.params["pool"]
    back, target = f"{pool}-0", f"/{pool}"
    # One that was found well after the other is eased in too, and its new weight may be known only once it is asked.
    if not wait_until(lambda: 14 <= count_answers(ctx, target, 40)[back] <= 26):
        yield f"before it failed {back} did not get half of the requests"
    with broken_endpoint(ctx, back, "check 500"):
        if not wait_until(lambda: not count_answers(ctx, target, 6)[back]):
            yield "failed checks did not take the endpoint out"
            return
    if not wait_until(lambda: count_answers(ctx, target, 4)[back] > 0, 8):
        yield "it does not come back"
        return
    begun = time.monotonic()
    yield from slow_start_shares(ctx, back, target)
    time.sleep(max(0, begun + 3.5 - time.monotonic()))
    late = count_answers(ctx, target, 60)
    if not 20 <= late[back] <= 40:
        yield f"3.5 s later {back} got {late[back]} of 60, expected 30"


def backup_after_ejection(ctx: ScriptContext) -> Iterator[str]:
    """A backup serves while every other endpoint is ejected."""
    pool = ctx.params["pool"]
    broken, backup, target = f"{pool}-0", f"{pool}-1", f"/{pool}"
    found = count_answers(ctx, target, 4)
    if found != {broken: 4}:
        yield f"all are healthy: {dict(found)}, expected only {broken}"
    with broken_endpoint(ctx, broken, "close"):
        found = count_answers(ctx, target, 6)
        if found != {"503": 3, backup: 3}:
            yield f"{broken} fails: {dict(found)}, expected 3 times 5xx, then 3 answers of {backup}"
    if not wait_until(lambda: count_answers(ctx, target, 2) == {broken: 2}):
        yield f"{broken} is back: {dict(count_answers(ctx, target, 4))}"
