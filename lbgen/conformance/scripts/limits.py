"""Token buckets, limits of concurrency and of connections, `max_per_endpoint` and the queue in front of it."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from uuid import uuid4

from msgspec.structs import replace

from lbgen.conformance.http1_client import Answer, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import (
    ScriptContext,
    account_field,
    control,
    count_answers,
    get,
    held,
    own_status,
    require,
    wait_until,
)
from lbgen.plan.request import Request

_HOLD = 0.7  # seconds that a request is held under way


def rate_burst(ctx: ScriptContext) -> Iterator[str]:
    """`burst` requests pass at once, the next are answered 429 by the proxy and reach no endpoint. So few come back in
    the time (6 in a minute) that none does here."""
    burst, before, request = ctx.params["burst"], ctx.asked, get(ctx.target)
    good = ctx.params.get("status", 200)
    wanted = [good] * burst + [429] * 3
    if (found := [ctx.ask(request).status for _ in wanted]) != wanted:
        yield f"{burst + 3} requests: {found}, expected {burst} times {good}, then 429"
    if ctx.params.get("forwards", True) and ctx.asked - before != burst:
        yield f"{ctx.asked - before} requests reached an endpoint, expected {burst}"
    answer, head = ctx.ask(request), ctx.ask(replace(request, method="HEAD"))
    if answer.status != 429:
        yield f"{answer.status} {answer.body!r}, expected 429"
    if answer.header("x-a") != "1":
        yield "the route's response_headers are missing on a 429"
    if head.status != 429 or head.problem:
        yield f"HEAD: {head.status} {head.problem}, expected 429"


def rate_refill(ctx: ScriptContext) -> Iterator[str]:
    """Tokens come back evenly (4 a second), and a refused request costs nothing: what passes while the proxy is asked
    far too often is what comes back."""
    rate, request = 4.0, get(ctx.target)
    require(wait_until(lambda: ctx.ask(request).status == 429), "no 429 however often it is asked")
    begun, passed = time.monotonic(), 0
    while time.monotonic() - begun < 1.6:
        passed += ctx.ask(request).status == 200
        time.sleep(0.03)
    took = time.monotonic() - begun
    low, high = math.floor(rate * took) - 1, math.ceil(rate * took) + 1
    if not low <= passed <= high:
        yield f"{passed} requests passed in {took:.1f} s at 4 a second, expected {low} to {high}"
    time.sleep(0.8)
    found = [ctx.ask(request).status for _ in range(4)]
    if found[:2] != [200, 200] or found[3] != 429:
        yield f"after 0.8 s of rest {found}, expected two or three times 200 (burst is 2), then 429"


def concurrency(ctx: ScriptContext) -> Iterator[str]:
    """`max` (2) requests at a time, until their last byte; one more is 429 at once, the next after one has ended is
    not. `headers`: the route's key; `others` are not counted with these: parts of requests, by what they are."""
    mine = get(ctx.target, *ctx.params.get("headers", {}).items())
    for how in (
        control(mode="hang", wait_ms=int(_HOLD * 1000)),
        control(mode="drip", count=4, wait_ms=int(_HOLD * 250)),
    ):
        with ExitStack() as stack:
            streams = []
            for listener in ("web", "proxied"):
                streams.append(stack.enter_context(ctx.connect(Request(listener=listener))))
                streams[-1].send(serialize(replace(mine, headers=(*mine.headers, how))))
                time.sleep(0.1)
            begun, asked = time.monotonic(), ctx.asked
            answer = ctx.ask(mine)
            others = {"another route": ctx.ask(get("/free")).status}
            for name, given in ctx.params.get("others", {}).items():
                other = get(ctx.target, *given.get("headers", {}).items())
                others[name] = ctx.ask(replace(other, client=given.get("client", "127.0.0.1"))).status
            if time.monotonic() - begun < _HOLD / 2:  # else the host was too busy to tell
                if answer.status != 429:
                    yield f"{how[1]}: a third request at a time: {answer.status} {answer.body!r}, expected 429"
                if ctx.asked - asked > len(others):
                    yield f"{how[1]}: the third request reached an endpoint"
                if set(others.values()) != {200}:
                    yield f"{how[1]}: {others}, expected 200"
            ended = [stream.read_answer().status for stream in streams]
        if ended != [200, 200]:
            yield f"{how[1]}: the two that were under way: {ended}"
        if not wait_until(lambda: {ctx.ask(mine).status, ctx.ask(mine).status} == {200}, 1):
            yield f"{how[1]}: after they have ended there is still no 200"


def concurrency_is_not_a_rate(ctx: ScriptContext) -> None:
    """Any number of requests pass one after the other, and failing ones give their place back."""

    def in_its_turn(mode: str) -> int | None:
        """The status of one more request. The place of the one before may be free 10 ms late, on a busy host later."""
        status: int | None = None
        for wait in (0.02, 0.2):
            time.sleep(wait)
            status = ctx.ask(get(ctx.target, control(mode=mode))).status
            if status != 429:
                break
        return status

    for mode in ("json", "close", "cut_body", "reset"):
        found = [in_its_turn(mode) for _ in range(5)]
        require(429 not in found, f"five requests one after the other, {mode}: {found}")


def connections_are_limited(ctx: ScriptContext) -> Iterator[str]:
    """While `most` connections are open no further one is served; once one of them has ended the next is. `request`, or
    a GET of `path`, is what they ask."""
    most, request = ctx.params["most"], ctx.params.get("request") or get(ctx.params.get("path", "/"))
    closing = replace(request, headers=(*request.headers, ("Connection", "close")))
    time.sleep(0.5)  # those that found the listener open have ended
    with ExitStack() as stack:
        streams = [stack.enter_context(ctx.connect(request)) for _ in range(most)]
        for number, stream in enumerate(streams):
            if (status := stream.ask(request).status) != 200:
                yield f"connection {number + 1} of {most}: {status}"
        if ctx.ask(request, timeout=0.6).status == 200:
            yield f"connection {most + 1} is served while {most} are open"
        streams[-1].sock.close()
        if not wait_until(lambda: ctx.ask(closing, timeout=0.6).status == 200):
            yield "one of them has ended and a new one is not served"


def full_is_503(ctx: ScriptContext) -> Iterator[str]:
    """With every place taken, by whatever route, one more request is 503 at once and reaches no endpoint. `size` more
    may wait; `targets` get a place."""
    targets, last, size = ctx.params["targets"], ctx.params["last"], ctx.params.get("size", 0)
    begun = time.monotonic()
    with held(ctx, targets, 1.2) as under_way, ThreadPoolExecutor(8) as pool:
        for _ in range(size):
            under_way.append(pool.submit(ctx.ask, get(last)))
            time.sleep(0.06)
        asked = ctx.asked
        found = ctx.ask(get(last))
        if time.monotonic() - begun < 1:  # else the host was too busy to tell
            if own_status(found, 503) != 503:
                yield f"one more than {len(targets)}: {found.status} {found.body[:60]!r}, expected 503"
            if found.elapsed > 0.5:
                yield f"503 after {found.elapsed:.1f} s, expected at once"
            if ctx.asked != asked:
                yield "one more than there are places reached an endpoint"
    ended = [future.result() for future in under_way]
    counts = Counter(account_field(answer, "name") for answer in ended)
    if [answer.status for answer in ended] != [200] * (len(targets) + size):
        yield f"as many as there are places: {dict(counts)}"
    elif (each := ctx.params.get("each")) and set(counts.values()) != {each}:
        yield f"all places are taken by {dict(counts)}, expected {each} at each endpoint"
    if not wait_until(lambda: count_answers(ctx, 3, last)["503"] == 0, 1):
        yield "they have ended and there is still no place"


def client_that_left_gives_way(ctx: ScriptContext) -> None:
    """A client that leaves while its request has the only place frees it at once, however long the endpoint takes."""
    time.sleep(0.1)  # the last request of the case before may still be counted
    before = ctx.asked
    with ctx.connect() as stream:
        stream.send(serialize(get(ctx.target, control(mode="hang", wait_ms=3000))))
        require(wait_until(lambda: ctx.asked > before, 1), "the first request did not reach an endpoint")
    begun = time.monotonic()
    free = wait_until(lambda: ctx.ask(get(ctx.target)).status == 200, 2.5)
    require(free, "its place is taken 2.5 s after the client has left")
    took = time.monotonic() - begun
    require(took <= 1.5, f"its place is free {took:.1f} s after the client has left, expected at once")


def queue_waits(ctx: ScriptContext) -> Iterator[str]:
    """A request without a place waits, with its `body`, and is served when the one before has ended, unless it has
    waited for `timeout_ms`: then it gets 503."""
    size, over = ctx.params.get("body", 0), ctx.params.get("timeout_ms", 0) / 1000
    with held(ctx, [ctx.target], 1.6 if over else 0.6) as under_way:
        waited = ctx.ask(Request("POST" if size else "GET", ctx.target, (("Host", "h"),), body=b"x" * size))
    first, account, low, high = under_way[0].result(), account_of(waited), *((0.35, 1.4) if over else (0.3, 2.5))
    if first.status != 200:
        yield f"the one under way: {first.status}"
    if own_status(waited, 503 if over else 200) != (503 if over else 200):
        yield f"the one that waited: {waited.status} {waited.body[:60]!r}, expected {503 if over else 200}"
    elif not low <= waited.elapsed <= high:
        yield f"the one that waited took {waited.elapsed:.1f} s, expected {over or 0.5} s"
    if size and (account is None or account["body_length"] != size):
        yield f"{account_field(waited, 'body_length')} bytes of a body, expected {size}"
    arrivals = [seen.at for seen in tuple(ctx.endpoints.seen) if seen.target == ctx.target][-2:]
    if not over and arrivals[1] - arrivals[0] < 0.4:
        yield f"the endpoint got both within {arrivals[1] - arrivals[0]:.2f} s, its only place was taken for 0.6 s"


def queue_next_free(ctx: ScriptContext) -> Iterator[str]:
    """Whichever endpoint is free first serves the one that waits."""
    with held(ctx, [ctx.target] * 2, 1.5, 0.5) as under_way:
        found = ctx.ask(get(ctx.target))
    homes = [account_field(future.result(), "name") for future in under_way]
    if set(homes) != {ctx.endpoint(0), ctx.endpoint(1)}:
        yield f"two requests at a time went to {homes}, expected one to each endpoint"
    if account_field(found, "name") != homes[1] or not 0.2 <= found.elapsed <= 1.3:
        yield f"{account_field(found, 'name')} after {found.elapsed:.1f} s, expected {homes[1]}, free after 0.4 s"


def full_endpoint_not_tried(ctx: ScriptContext) -> Iterator[str]:
    """A further try does not go to an endpoint whose only place is taken; it may come back, or be 503."""
    tag, begun = uuid4().hex, time.monotonic()
    with held(ctx, [ctx.target], 1.2) as under_way:
        ctx.ask(get(ctx.target, control(tag=tag, steps=[{"mode": "fixed", "status": 503}, {}])))
        took = time.monotonic() - begun
    busy = account_field(under_way[0].result(), "name")
    names = [one.name for one in ctx.endpoints.tagged(tag)]
    if not names or names[0] == busy:
        yield f"{busy} is full, the request went to {names}"
    elif took < 1 and busy in names:
        yield f"{busy} has one place and got two requests at a time"


def full_of_copies(ctx: ScriptContext) -> None:
    """Copies take places like other requests: while one is under way at a pool's only place no other one gets there."""
    target = f"{ctx.target}/{uuid4().hex}"
    for _ in range(3):
        ctx.ask(get(target))
    time.sleep(0.3)  # the pool's endpoint takes a second for each
    names = [one.name for one in tuple(ctx.endpoints.seen) if one.target == target]
    copies = sum(name.startswith(ctx.params["copies"]) for name in names)
    require(copies == 1, f"{copies} copies at a time, expected 1")


def queue_streams(ctx: ScriptContext) -> Iterator[str]:
    """A request that finds a place at once reaches the endpoint before its body has ended."""
    asked = sum(ctx.endpoints.heads.values())
    with ctx.connect() as stream:
        head = Request("POST", ctx.target, (("Host", "h"), ("Content-Length", "200000")))
        stream.send(serialize(head) + b"x" * 100_000)
        if not wait_until(lambda: sum(ctx.endpoints.heads.values()) > asked, 1):
            yield "the endpoint is not asked before its end"
        stream.send(b"x" * 100_000)
        if (status := stream.read_answer().status) != 200:
            yield f"status {status} in the end"


def queue_is_fair(ctx: ScriptContext) -> None:
    """Three clients that ask again and again for one place are all served, before their time (500 ms) is over."""

    def client(_number: int) -> list[Answer]:
        return [ctx.ask(get(ctx.target, control(mode="hang", wait_ms=10))) for _ in range(25)]

    with ThreadPoolExecutor(3) as pool:
        statuses = Counter(answer.status for answers in pool.map(client, range(3)) for answer in answers)
    require(statuses.keys() == {200}, f"three clients, one place: {dict(statuses)}")
