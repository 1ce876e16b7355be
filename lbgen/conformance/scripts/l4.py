"""Layer 4: bytes and datagrams, who comes in, and which endpoint answers. What asks for a name is HTTP."""

from __future__ import annotations

import itertools
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from msgspec.structs import replace

from lbgen.conformance.http1_client import Answer, ClientConnection, fetch
from lbgen.conformance.scripts.context import (
    ScriptContext,
    account_field,
    behaving,
    exchange_datagram,
    get,
    require,
    wait_until,
)
from lbgen.conformance.transport import client_hello
from lbgen.plan.model import Plan
from lbgen.plan.request import Request
from lbgen.runtime.standins.stand_in import Behaviour

# A connection of the probe that found the engine ready may come to its endpoint late; a client's comes each time.
_MORE_TRIES = 2


def l4_large(ctx: ScriptContext) -> None:
    """A megabyte of all byte values comes back unchanged."""
    sent = bytes(itertools.islice(itertools.cycle(range(256)), 1 << 20))
    with ctx.connect(Request(listener="echo"), timeout=10) as stream, ThreadPoolExecutor(1) as pool:

        def send() -> None:
            stream.send(sent)
            stream.shutdown_write()

        pool.submit(send)
        got = stream.read_to_end()
    require(got == sent + b"end of raw-0\n", f"{len(got)} bytes came back, {len(sent) + 13} expected")


def l4_names(ctx: ScriptContext) -> Iterator[str]:
    """A connection goes by the server name of its handshake, which the proxy reads and passes on untouched."""
    for name, pool in ctx.params["names"].items():
        endpoint = "" if pool is None else f"{pool}-0"
        before = ctx.endpoints.connections.copy()
        with ClientConnection(ctx.at["edge"], client=ctx.params.get("client", ""), timeout=4) as stream:
            stream.send(client_hello(name))
            stream.read_more(0.5)
            if endpoint:
                wait_until(lambda before=before: ctx.endpoints.connections != before, 2)  # type: ignore[misc]
            grown = sorted(ctx.endpoints.connections - before)
            if not endpoint and stream.end == "open":
                stream.read_to_end()
        if grown != ([endpoint] if endpoint else []):
            yield f"{name or '(no name)'} went to {grown}, expected {endpoint or 'nowhere'}"
        elif not endpoint and stream.end == "open":
            yield f"{name or '(no name)'}: the connection stays open"


def l4_asked(ctx: ScriptContext) -> Iterator[str]:
    """For each client address the endpoint that answers, or "" for a connection that is closed without a byte and
    without a connection to an endpoint."""
    for client, name in ctx.params["clients"].items():
        answer, reached = _ask(ctx, client)
        for _ in range(_MORE_TRIES):
            if name or not reached:
                break
            _, again = _ask(ctx, client)
            reached &= again
        if not name and reached:
            yield f"{client}: a connection to {sorted(reached)}, expected none"
        if name and account_field(answer, "name") != name:
            yield f"{client}: {account_field(answer, 'name')}, expected {name}"
        elif not name and (answer.raw or answer.after == "open"):
            yield f"{client}: {answer.raw[:80]!r}, the connection is {answer.after}, expected closed without a byte"


def _ask(ctx: ScriptContext, client: str) -> tuple[Answer, set[str]]:
    """The answer to a client, and the endpoints that got a connection meanwhile and are not checked."""
    before = ctx.endpoints.connections.copy()
    answer = fetch(ctx.at[ctx.listener], replace(get("/"), client=client), timeout=3)
    return answer, (ctx.endpoints.connections - before).keys() - _checked_endpoints(ctx.plan)


def _checked_endpoints(plan: Plan) -> set[str]:
    """The endpoints that active checks connect to, each of which has a port of its own."""
    ports = {x.active.port or each.port for x in plan.pools if x.active is not None for each in x.endpoints}
    return {f"{x.name}-{n}" for x in plan.pools for n, each in enumerate(x.endpoints) if each.port in ports}


def l4_share(ctx: ScriptContext) -> None:
    """Connections of many clients go to just these endpoints."""
    found = {account_field(ctx.ask(replace(get("/"), client=f"127.0.9.{n}")), "name") for n in range(1, 31)}
    sentence = f"30 clients were answered by {sorted(found)}, expected {ctx.params['names']}"
    require(found == set(ctx.params["names"]), sentence)


def l4_open_evenly(ctx: ScriptContext) -> None:
    """Of connections that stay open each endpoint has as many as the others."""
    names = ctx.params["names"]
    with ExitStack() as stack:
        streams = (stack.enter_context(ctx.connect()) for _ in range(4 * len(names)))
        found = Counter(account_field(stream.ask(get("/")), "name") for stream in streams)
    even = found == Counter(dict.fromkeys(names, 4))
    require(even, f"{4 * len(names)} open connections: {dict(found)}, expected 4 for each of {names}")


def l4_avoids_slow(ctx: ScriptContext) -> None:
    """An endpoint that needs 400 ms more for each request gets less than half of an equal share of new connections,
    at the latest once an agent has begun to count them."""
    names = ctx.params["names"]
    counts: Counter[str] = Counter()

    def ask_until(end: float) -> Counter[str]:
        found: Counter[str] = Counter()
        while time.monotonic() < end:
            found[account_field(ctx.ask(get("/"), timeout=3), "name")] += 1
            time.sleep(0.05)
        return found

    def is_avoided() -> bool:
        counts.clear()
        for found in pool.map(ask_until, [time.monotonic() + 3] * 6):
            counts.update(found)
        return counts.keys() == set(names) and counts[names[0]] * 2 * len(names) < counts.total()

    with behaving(ctx, names[0], Behaviour("hang", wait_ms=400)), ThreadPoolExecutor(6) as pool:
        avoided = wait_until(is_avoided)
    require(avoided, f"of 6 clients' connections in 3 s: {dict(counts)}, {names[0]} is slow")


def udp_untouched(ctx: ScriptContext) -> Iterator[str]:
    """Datagrams of any bytes and sizes reach the endpoint whole, and its answers come from the listener's address:
    those that the network sends in fragments too, up to the largest that UDP can hold."""
    address, name = ctx.at[ctx.listener], ctx.params["name"].encode() + b": "
    _wait_for_answer(ctx)
    sizes = ctx.params.get("sizes")  # of the answer, which has the name in front
    small = (b"hello", bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n", 1_200 * b"y")
    for data in small if sizes is None else [(size - len(name)) * b"y" for size in sizes]:
        if (got := exchange_datagram(address, data)) != name + data:
            yield f"{len(data)} bytes {data[:20]!r}: {None if got is None else got[:60]!r} came back"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1.0)
        sock.connect(address)
        try:
            for number in range(5):
                sock.send(b"%d" % number)
                if (got := sock.recv(1_000)) != name + b"%d" % number:
                    yield f"datagram {number + 1} of one client: {got!r}"
        except TimeoutError:
            yield "no answer to a further datagram of one client"


def _wait_for_answer(ctx: ScriptContext) -> None:
    answered = wait_until(lambda: exchange_datagram(ctx.at[ctx.listener], b"x") is not None)
    require(answered, "no answer to a datagram")


def udp_balanced(ctx: ScriptContext) -> None:
    """Clients are spread over the endpoints."""
    address, names = ctx.at[ctx.listener], ctx.params["names"]
    _wait_for_answer(ctx)
    found = Counter((exchange_datagram(address, b"x") or b"none").partition(b":")[0].decode() for _ in range(40))
    fair = set(found) == set(names) and min(found.values()) >= 12
    require(fair, f"40 clients: {dict(found)}, expected about 20 for each of {names}")


def udp_access(ctx: ScriptContext) -> None:
    """A client that is denied gets nothing, and nothing of it reaches an endpoint."""
    _wait_for_answer(ctx)
    before = ctx.endpoints.requests[ctx.params["name"]]
    got = exchange_datagram(ctx.at[ctx.listener], b"x", ctx.params.get("denied", "127.0.0.66"))
    require(got is None and ctx.endpoints.requests[ctx.params["name"]] == before, f"a denied client got {got!r}")
