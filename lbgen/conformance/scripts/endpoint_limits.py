"""`max_per_endpoint` and the queue in front of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import uuid4

from lbgen.conformance.http1_client import Answer, ClientConnection, fetch, serialize
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.scripts.context import (
    ScriptContext,
    account_field,
    count_answers,
    get,
    own_status,
    wait_until,
)
from lbgen.plan.request import Request
from lbgen.runtime.standins.http1 import CONTROL


def _hold(ctx: ScriptContext, pool: ThreadPoolExecutor, target: str, seconds: float) -> Future[Answer]:
    """A request that finds a place and that its endpoint, where it is now, answers after `seconds`."""
    control = (CONTROL, f'{{"mode": "hang", "wait_ms": {int(seconds * 1000)}}}')
    before = sum(ctx.endpoints.requests.values())
    future = pool.submit(fetch, ctx.at["web"], get(target, control))
    wait_until(lambda: sum(ctx.endpoints.requests.values()) > before, 1)
    return future


def full_is_503(ctx: ScriptContext) -> Iterator[str]:
    """With every place taken, by whatever route, one more request is 503 at once and reaches no endpoint."""
    targets, last = ctx.params["targets"], ctx.params["last"]
    with ThreadPoolExecutor(8) as pool:
        begun = time.monotonic()
        held = [_hold(ctx, pool, target, 1.2) for target in targets]
        asked = sum(ctx.endpoints.requests.values())
        found = fetch(ctx.at["web"], get(last))
        if time.monotonic() - begun < 1:  # else the host was too busy to tell
            if own_status(found, 503) != 503:
                yield f"one more than {len(targets)}: {found.status} {found.body[:60]!r}, expected 503"
            if found.elapsed > 0.5:
                yield f"503 after {found.elapsed:.1f} s, expected at once"
            if sum(ctx.endpoints.requests.values()) != asked:
                yield "one more than there are places reached an endpoint"
        ended = [future.result() for future in held]
    counts = Counter(account_field(answer, "name") for answer in ended)
    if [answer.status for answer in ended] != [200] * len(targets):
        yield f"as many as there are places: {dict(counts)}"
    elif (each := ctx.params.get("each")) and set(counts.values()) != {each}:
        yield f"all places are taken by {dict(counts)}, expected {each} at each endpoint"
    if not wait_until(lambda: count_answers(ctx, last, 3)["503"] == 0, 1):
        yield "they have ended and there is still no place"


def client_that_left_gives_way(ctx: ScriptContext) -> Iterator[str]:
    """A client that leaves while its request has the only place frees it at once, however long the endpoint takes."""
    target = ctx.params["target"]
    time.sleep(0.1)  # the last request of the case before may still be counted
    before = sum(ctx.endpoints.requests.values())
    with ClientConnection(ctx.at["web"]) as stream:
        stream.send(serialize(get(target, (CONTROL, '{"mode": "hang", "wait_ms": 3000}'))))
        if not wait_until(lambda: sum(ctx.endpoints.requests.values()) > before, 1):
            yield "the first request did not reach an endpoint"
    begun = time.monotonic()
    if not wait_until(lambda: fetch(ctx.at["web"], get(target)).status == 200, 2.5):
        yield "its place is taken 2.5 s after the client has left"
    elif (took := time.monotonic() - begun) > 1.5:
        yield f"its place is free {took:.1f} s after the client has left, expected at once"


def queue_waits(ctx: ScriptContext) -> Iterator[str]:
    """A request without a place waits and is served when the one before has ended."""
    target = ctx.params["target"]
    with ThreadPoolExecutor(4) as pool:
        first = _hold(ctx, pool, target, 0.6)
        second = pool.submit(fetch, ctx.at["web"], get(target))
        late, early = second.result(), first.result()
    if (early.status, late.status) != (200, 200):
        yield f"{early.status} and {late.status}, expected 200 for both"
    elif not 0.3 <= late.elapsed <= 2.5:
        yield f"the second took {late.elapsed:.1f} s, expected to wait 0.5 s for the first"
    arrivals = [seen.at for seen in tuple(ctx.endpoints.seen) if seen.target == target][-2:]
    if arrivals[1] - arrivals[0] < 0.4:
        yield f"the endpoint got both within {arrivals[1] - arrivals[0]:.2f} s, its only place was taken for 0.6 s"


def queue_is_full(ctx: ScriptContext) -> Iterator[str]:
    """More requests than `size` do not wait: 503 at once."""
    target, size = ctx.params["target"], ctx.params["size"]
    with ThreadPoolExecutor(8) as pool:
        begun = time.monotonic()
        held = [_hold(ctx, pool, target, 1.2)]
        for _ in range(size):
            held.append(pool.submit(fetch, ctx.at["web"], get(target)))
            time.sleep(0.06)
        found = fetch(ctx.at["web"], get(target))
        busy = time.monotonic() - begun > 1
        statuses = [future.result().status for future in held]
    if not busy and (own_status(found, 503) != 503 or found.elapsed > 0.5):
        yield f"one more than wait: {found.status} after {found.elapsed:.1f} s, expected 503 at once"
    if statuses != [200] * (size + 1):
        yield f"those with a place or in the queue: {statuses}"


def queue_time_over(ctx: ScriptContext) -> Iterator[str]:
    """A request that waited for `timeout` (500 ms) gets 503."""
    target = ctx.params["target"]
    with ThreadPoolExecutor(4) as pool:
        first = _hold(ctx, pool, target, 1.6)
        found = fetch(ctx.at["web"], get(target))
        status = first.result().status
    if status != 200:
        yield f"the one under way: {status}"
    if own_status(found, 503) != 503:
        yield f"the one that waited: {found.status} {found.body[:60]!r}, expected 503"
    elif not 0.35 <= found.elapsed <= 1.4:
        yield f"503 after {found.elapsed:.1f} s, expected after 0.5 s"


def queue_next_free(ctx: ScriptContext) -> Iterator[str]:
    """Whichever endpoint is free first serves the one that waits."""
    name = ctx.params["pool"]
    with ThreadPoolExecutor(8) as pool:
        held = [_hold(ctx, pool, f"/{name}", seconds) for seconds in (1.5, 0.5)]
        found = fetch(ctx.at["web"], get(f"/{name}"))
        homes = [account_field(future.result(), "name") for future in held]
    if set(homes) != {f"{name}-0", f"{name}-1"}:
        yield f"two requests at a time went to {homes}, expected one to each endpoint"
    if account_field(found, "name") != homes[1] or not 0.2 <= found.elapsed <= 1.3:
        yield f"{account_field(found, 'name')} after {found.elapsed:.1f} s, expected {homes[1]}, free after 0.4 s"


def full_endpoint_not_tried(ctx: ScriptContext) -> Iterator[str]:
    """A further try does not go to an endpoint whose only place is taken; it may come back, or be 503."""
    target, tag = ctx.params["target"], uuid4().hex
    steps = '"steps": [{"mode": "fixed", "status": 503}, {}]'
    with ThreadPoolExecutor(2) as pool:
        held = _hold(ctx, pool, target, 1.2)
        begun = time.monotonic()
        fetch(ctx.at["web"], get(target, (CONTROL, f'{{"tag": "{tag}", {steps}}}')))
        took = time.monotonic() - begun
        busy = account_field(held.result(), "name")
    names = [one.name for one in ctx.endpoints.tagged(tag)]
    if not names or names[0] == busy:
        yield f"{busy} is full, the request went to {names}"
    elif took < 1 and busy in names:
        yield f"{busy} has one place and got two requests at a time"


def full_of_copies(ctx: ScriptContext) -> Iterator[str]:
    """Copies take places like other requests: while one is under way at a pool's only place no other one gets there."""
    target = f"{ctx.params['target']}/{uuid4().hex}"
    for _ in range(3):
        fetch(ctx.at["web"], get(target))
    time.sleep(0.3)  # the pool's endpoint takes a second for each
    names = [one.name for one in tuple(ctx.endpoints.seen) if one.target == target]
    copies = sum(name.startswith(ctx.params["copies"]) for name in names)
    if copies != 1:
        yield f"{copies} copies at a time, expected 1"


def queue_streams(ctx: ScriptContext) -> Iterator[str]:
    """A request that finds a place at once reaches the endpoint before its body has ended."""
    request = Request("POST", ctx.params["target"], (("Host", "h"), ("Content-Length", "200000")))
    asked = sum(ctx.endpoints.heads.values())
    with ClientConnection(ctx.at["web"]) as stream:
        stream.send(serialize(request) + b"x" * 100_000)
        if not wait_until(lambda: sum(ctx.endpoints.heads.values()) > asked, 1):
            yield "the endpoint is not asked before its end"
        stream.send(b"x" * 100_000)
        if (status := stream.read_answer().status) != 200:
            yield f"status {status} in the end"


def queue_holds_bodies(ctx: ScriptContext) -> Iterator[str]:
    """Of a route that buffers, one that waits comes with its whole body once there is a place, and not before."""
    target = ctx.params["target"]
    body = b"x" * 200_000
    with ThreadPoolExecutor(4) as pool:
        first = _hold(ctx, pool, target, 0.6)
        found = fetch(ctx.at["web"], Request("POST", target, (("Host", "h"),), body=body))
        status = first.result().status
    account = account_of(found)
    if status != 200 or account is None or account["body_length"] != len(body):
        yield f"{status}, then {account_field(found, 'body_length')} bytes of a body, expected {len(body)}"
    elif not 0.3 <= found.elapsed <= 2.5:
        yield f"the second took {found.elapsed:.1f} s, expected to wait 0.5 s for the first"


def queue_is_fair(ctx: ScriptContext) -> Iterator[str]:
    """Three clients that ask again and again for one place are all served, before their time (500 ms) is over."""
    target = ctx.params["target"]
    control = (CONTROL, '{"mode": "hang", "wait_ms": 10}')

    def client(_number: int) -> list[Answer]:
        return [fetch(ctx.at["web"], get(target, control)) for _ in range(25)]

    with ThreadPoolExecutor(3) as pool:
        found = [answer for answers_of in pool.map(client, range(3)) for answer in answers_of]
    statuses = Counter(answer.status for answer in found)
    if statuses != {200: len(found)}:
        yield f"three clients, one place: {dict(statuses)}"
