"""Token buckets and concurrency limits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from lbgen.conformance.http1_client import ClientConnection, fetch, serialize
from lbgen.conformance.scripts.context import ScriptContext, get, wait_until
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL

Headers = tuple[tuple[str, str], ...]
HOLD = 0.7  # seconds that a request is held under way


def _statuses(
    ctx: ScriptContext,
    target: str,
    count: int,
    headers: Headers = (),
    client: str = "127.0.0.1",
    listener: str = "web",
) -> list[int | None]:
    request = replace(get(target, *headers), client=client)
    return [fetch(ctx.at[listener], request).status for _ in range(count)]


def rate_burst(ctx: ScriptContext) -> Iterator[str]:
    """`burst` requests pass at once, the next are answered 429 by the proxy and reach no endpoint. So few come back in
    the time (6 in a minute) that none does here."""
    target, burst = ctx.params["target"], ctx.params["burst"]
    good = ctx.params.get("status", 200)
    before = sum(ctx.endpoints.requests.values())
    found = _statuses(ctx, target, burst + 3)
    if found != [good] * burst + [429] * 3:
        yield f"{burst + 3} requests: {found}, expected {burst} times {good}, then 429"
    if ctx.params.get("forwards", True) and sum(ctx.endpoints.requests.values()) - before != burst:
        yield f"{sum(ctx.endpoints.requests.values()) - before} requests reached an endpoint, expected {burst}"
    answer = fetch(ctx.at["web"], get(target))
    if answer.status != 429:
        yield f"{answer.status} {answer.body!r}, expected 429"
    if answer.header("x-a") != "1":
        yield "the route's response_headers are missing on a 429"
    answer = fetch(ctx.at["web"], get(target, method="HEAD"))
    if answer.status != 429 or answer.problem:
        yield f"HEAD: {answer.status} {answer.problem}, expected 429"


def rate_refill(ctx: ScriptContext) -> Iterator[str]:
    """Tokens come back evenly (4 a second), and a refused request costs nothing: what passes while the proxy is asked
    far too often is what comes back."""
    target, rate = ctx.params["target"], 4.0
    if not wait_until(lambda: _statuses(ctx, target, 1) == [429]):
        yield "no 429 however often it is asked"
        return
    begun = time.monotonic()
    passed = 0
    while time.monotonic() - begun < 1.6:
        passed += _statuses(ctx, target, 1) == [200]
        time.sleep(0.03)
    took = time.monotonic() - begun
    low, high = math.floor(rate * took) - 1, math.ceil(rate * took) + 1
    if not low <= passed <= high:
        yield f"{passed} requests passed in {took:.1f} s at 4 a second, expected {low} to {high}"
    time.sleep(0.8)
    found = _statuses(ctx, target, 4)
    if found[:2] != [200, 200] or found[3] != 429:
        yield f"after 0.8 s of rest {found}, expected two or three times 200 (burst is 2), then 429"


def rate_by_client(ctx: ScriptContext) -> Iterator[str]:
    """Each client address has a bucket of its own, whatever connection it uses."""
    target, burst = ctx.params["target"], ctx.params["burst"]
    for client in ("127.0.3.1", "127.0.3.2"):
        found = _statuses(ctx, target, burst + 1, client=client)
        if found != [200] * burst + [429]:
            yield f"{client}: {found}, expected {burst} times 200, then 429"
    spoofed = _statuses(ctx, target, 1, (("X-Forwarded-For", "9.9.9.9"),), "127.0.3.1")
    if spoofed != [429]:
        yield f"a client whose bucket is empty names another address in X-Forwarded-For: {spoofed}, expected 429"
    for address in ("7.7.7.1", "7.7.7.2"):
        behind = (("X-Forwarded-For", f"{address}, 10.0.0.9"),)
        found = _statuses(ctx, target, burst + 1, behind, listener="proxied")
        if found != [200] * burst + [429]:
            yield f"{address} behind trusted proxies: {found}, expected {burst} times 200, then 429"


def rate_by_header(ctx: ScriptContext) -> Iterator[str]:
    """Each value of the header has a bucket of its own; a request without it is not limited."""
    target, burst = ctx.params["target"], ctx.params["burst"]
    for value in ("a", "b", "A", "a b", "\xff"):
        found = _statuses(ctx, target, burst + 1, (("X-Api-Key", value),))
        if found != [200] * burst + [429]:
            yield f"X-Api-Key {value!r}: {found}, expected {burst} times 200, then 429"
    for what, headers in (("without the header", ()), ("with an empty one", (("X-Api-Key", ""),))):
        found = _statuses(ctx, target, 3 * burst + 3, headers)
        if set(found) != {200}:
            yield f"{what}: {found}, expected only 200"


def rate_by_lines(ctx: ScriptContext) -> Iterator[str]:
    """A request that has several lines of the header is limited; in another order they are another value."""
    target, burst = ctx.params["target"], ctx.params["burst"]
    for lines in (("first", "second"), ("second", "first")):
        found = _statuses(ctx, target, burst + 1, tuple(("X-Api-Key", value) for value in lines))
        if found != [200] * burst + [429]:
            yield f"lines {lines}: {found}, expected {burst} times 200, then 429"


def rate_by_route(ctx: ScriptContext) -> Iterator[str]:
    """One bucket for all clients and listeners of the route; other routes have their own."""
    target, burst = ctx.params["target"], ctx.params["burst"]
    found = []
    for number in range(burst):
        found += _statuses(ctx, target, 1, client=f"127.0.4.{number + 1}", listener=("web", "proxied")[number % 2])
    found += _statuses(ctx, target, 1, client="127.0.4.99")
    found += _statuses(ctx, target, 1, client="127.0.4.98", listener="proxied")
    if found != [200] * burst + [429, 429]:
        yield f"{burst + 2} clients: {found}, expected {burst} times 200, then 429"
    if (other := _statuses(ctx, "/free", 3)) != [200] * 3:
        yield f"another route: {other}"


def _held(ctx: ScriptContext, target: str, headers: Headers, client: str, listener: str, how: str) -> ClientConnection:
    """A request that is under way for HOLD seconds."""
    stream = ClientConnection(ctx.at[listener], client=client)
    stream.send(serialize(get(target, (CONTROL, how), *headers)))
    return stream


def concurrency(ctx: ScriptContext) -> Iterator[str]:
    """`max` (2) requests at a time, until their last byte; one more is 429 at once, the next after one has ended is
    not. `with` tells the route's key, and a value of it that has its own count."""
    target = ctx.params["target"]
    mine = tuple((n, v) for n, v in ctx.params.get("headers", {}).items())
    hang = f'{{"mode": "hang", "wait_ms": {int(HOLD * 1000)}}}'
    drip = f'{{"mode": "drip", "count": 4, "wait_ms": {int(HOLD * 250)}}}'
    for how in (hang, drip):
        held = []
        for listener in ("web", "proxied"):
            held.append(_held(ctx, target, mine, "127.0.0.1", listener, how))
            time.sleep(0.1)
        begun = time.monotonic()
        asked = sum(ctx.endpoints.requests.values())
        answer = fetch(ctx.at["web"], get(target, *mine))
        others = list(_others(ctx, target))
        if time.monotonic() - begun < HOLD / 2:  # else the host was too busy to tell
            if answer.status != 429:
                yield f"{how}: a third request at a time: {answer.status} {answer.body!r}, expected 429"
            if sum(ctx.endpoints.requests.values()) - asked > len(others):
                yield f"{how}: the third request reached an endpoint"
            yield from (f"{how}: {name}: {status}, expected 200" for name, status in others if status != 200)
        ended = [stream.read_answer().status for stream in held]
        for stream in held:
            stream.sock.close()
        if ended != [200, 200]:
            yield f"{how}: the two that were under way: {ended}"
        if not wait_until(lambda: _statuses(ctx, target, 2, mine) == [200, 200], 1):
            yield f"{how}: after they have ended there is still no 200"


def _others(ctx: ScriptContext, target: str) -> Iterator[tuple[str, int | None]]:
    """Requests that are not counted with those of `concurrency`."""
    yield "another route", _statuses(ctx, "/free", 1)[0]
    if (client := ctx.params.get("other_client")) is not None:
        yield "another client", _statuses(ctx, target, 1, client=client)[0]
    if (value := ctx.params.get("other_headers")) is not None:
        yield "another value", _statuses(ctx, target, 1, tuple(value.items()))[0]
        yield "no value", _statuses(ctx, target, 1)[0]


def _in_its_turn(ctx: ScriptContext, target: str, control: str) -> int | None:
    """The status of one more request. The place of the one before may be free 10 ms late, on a busy host later."""
    status: int | None = None
    for wait in (0.02, 0.2):
        time.sleep(wait)
        status = _statuses(ctx, target, 1, ((CONTROL, control),))[0]
        if status != 429:
            break
    return status


def concurrency_is_not_a_rate(ctx: ScriptContext) -> Iterator[str]:
    """Any number of requests pass one after the other, and failing ones give their place back."""
    target = ctx.params["target"]
    for control in ("{}", '{"mode": "close"}', '{"mode": "cut_body"}', '{"mode": "reset"}'):
        found = [_in_its_turn(ctx, target, control) for _ in range(5)]
        if 429 in found:
            yield f"five requests one after the other, {control}: {found}"
            return
