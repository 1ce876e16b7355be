"""Checks of any rate, limit and mirror; requests, numbers and times are parameters."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from math import ceil
from uuid import uuid4

from lbgen.conformance.difference import Difference, late
from lbgen.conformance.http1_client import ClientConnection, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.pages import page_differences
from lbgen.conformance.scripts.context import ScriptContext, own_status, wait_until, with_control
from lbgen.plan.error_pages import page_for
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate

_AT_ONCE, _FREE = 16, 3  # requests at once, and retries that no budget counts
_QUIET = 0.2  # seconds in which a copy would have come


def rate_holds(ctx: ScriptContext) -> Iterator[Difference | str]:
    """`burst` requests pass at once, then as many as come back in the time; the others are 429, with
    the page of the route."""
    burst, per_second = ctx.params["burst"], ctx.params["per_second"]
    begun = time.monotonic()
    found: list[int | None] = []
    took = 0.0
    while len(found) < burst + 8 + 2 * per_second * min(took, 3):  # more than come back on a slow machine
        found.append(ctx.ask(ctx.params["request"]).status)
        took = time.monotonic() - begun
    passed = sum(status != 429 for status in found)
    most = burst + int(per_second * took) + 1
    if not burst <= passed <= most:
        yield f"{passed} of {len(found)} requests passed in {took:.2f} s, expected {burst} to {most}, then 429"
    request: Request = ctx.params["request"]
    outcome = simulate(ctx.plan, request)
    page, answer = page_for(outcome.error_pages, 429), ctx.ask(request)
    if page is not None and answer.status == 429 and account_of(answer) is None:
        yield from page_differences(request.method, [page], outcome, answer)


def concurrency_holds(ctx: ScriptContext) -> Iterator[Difference | str]:
    """`most` requests are under way at a time; one more is refused (`status`) at once, and none is afterwards."""
    found = list(_held(ctx))
    if found:  # what was asked before may have been under way still
        time.sleep(1)
        found = list(_held(ctx))
    yield from found


def _held(ctx: ScriptContext) -> Iterator[Difference | str]:
    request: Request = ctx.params["request"]
    most, status = ctx.params["most"], ctx.params["status"]
    hold = ctx.params["hold_ms"]
    held = with_control(request, mode="hang", wait_ms=hold)
    with ExitStack() as stack:
        begun = time.monotonic()
        streams = _under_way(ctx, stack, held, most)
        over = own_status(ctx.ask(request), status)
        if time.monotonic() - begun < hold / 1000 - 0.1 and over != status:  # else the host was too busy
            yield f"one more than {most} at a time: {over}, expected {status}"
        ended = Counter(stream.read_answer().status for stream in streams)
        if set(ended) != {200}:
            yield f"{most} at a time: {dict(ended)}, expected 200"
    if not wait_until(lambda: ctx.ask(request).status == 200, 2):
        yield late(f"after they have ended: {ctx.ask(request).status}, expected 200")


def queue_holds(ctx: ScriptContext) -> Iterator[Difference | str]:
    """While `most` requests are under way `size` more wait and are served, and one more gets 503 at once. One that has
    waited for `timeout_ms` gets 503, where that is shorter than endpoints may take (`hold_ms`)."""
    request, most, size = ctx.params["request"], ctx.params["most"], ctx.params["size"]
    time_out, longest = ctx.params["timeout_ms"], ctx.params["hold_ms"]
    hold = min(longest, time_out * 3 // 4)
    with ExitStack() as stack:
        begun = time.monotonic()
        streams = _under_way(ctx, stack, with_control(request, mode="hang", wait_ms=hold), most)
        streams += _under_way(ctx, stack, request, size)
        over, took = own_status(ctx.ask(request), 503), time.monotonic() - begun
        if took < hold / 1000 - 0.1 and over != 503:  # else the host was too busy
            yield f"one more than {most} under way and {size} that wait: {over}, expected 503"
        ended = Counter(stream.read_answer().status for stream in streams)
        if set(ended) != {200}:
            yield f"{most} under way and {size} that wait: {dict(ended)}, expected 200"
    if longest < time_out + 500:
        return
    with ExitStack() as stack:
        streams = _under_way(ctx, stack, with_control(request, mode="hang", wait_ms=longest), most)
        begun = time.monotonic()
        status, took = own_status(ctx.ask(request), 503), 1000 * (time.monotonic() - begun)
        if status != 503 or not 0.8 * time_out - 200 <= took <= time_out + 400:
            yield late(f"one that waited: {status} after {took:.0f} ms, expected 503 after {time_out}")
        for stream in streams:
            stream.read_answer()


def _under_way(ctx: ScriptContext, stack: ExitStack, request: Request, count: int) -> list[ClientConnection]:
    """Connections on which so many requests have been sent, one after the other."""
    streams = []
    for _ in range(count):
        stream = stack.enter_context(ctx.connect(request))
        stream.send(serialize(request))
        streams.append(stream)
        time.sleep(0.02)
    time.sleep(0.1)
    return streams


def retries_are_bounded(ctx: ScriptContext) -> Iterator[str]:
    """Of many requests that time out at once only a share is tried again: `budget` percent of those under way and a
    few more, `max` times."""
    request, budget, most = ctx.params["request"], ctx.params["budget"], ctx.params["max"]
    tag = uuid4().hex
    failing = with_control(request, mode="hang", tag=tag)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        statuses = Counter(own_status(answer, 504) for answer in pool.map(ctx.ask, [failing] * _AT_ONCE))
    if set(statuses) != {504}:
        yield f"answers {dict(statuses)}, expected 504"
    tries, highest = len(ctx.endpoints.tagged(tag)), _AT_ONCE + most * (ceil(_AT_ONCE * budget / 100) + _FREE)
    if not _AT_ONCE < tries <= highest:
        yield f"{_AT_ONCE} requests that time out at once: {tries} tries, expected {_AT_ONCE + 1} to {highest}"


def copies_reach_mirror(ctx: ScriptContext) -> Iterator[str]:
    """Copies of so many requests reach the other pool; the client sees nothing of it."""
    names = {x.name for x in ctx.endpoints.stand_ins if x.pool == ctx.params["pool"]}
    active = ctx.plan.pool(ctx.params["pool"]).active
    check = None if active is None else active.path

    def arrived() -> int:
        return sum(1 for x in tuple(ctx.endpoints.seen) if x.name in names and x.target.partition("?")[0] != check)

    before = -1
    while before != (before := arrived()):  # copies of earlier requests may be on their way
        time.sleep(_QUIET)
    answers = Counter(ctx.ask(ctx.params["request"]).status for _ in range(ctx.params["times"]))
    low, high = ctx.params["copies"]
    wait_until(lambda: arrived() - before >= low, 2)
    time.sleep(_QUIET)
    copies = arrived() - before
    if not low <= copies <= high:
        yield f"{copies} copies of {ctx.params['times']} requests, expected {low} to {high}"
    if set(answers) != {200}:
        yield f"answers {dict(answers)}, expected 200"
