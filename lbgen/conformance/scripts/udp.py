"""UDP: datagrams to endpoints and their answers."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

from lbgen.conformance.scripts.context import ScriptContext, exchange_datagram, wait_until

_WAIT = 1.0  # seconds for an answer


def udp_untouched(ctx: ScriptContext) -> Iterator[str]:
    """Datagrams of any bytes and sizes reach the endpoint whole, and its answers come from the listener's address."""
    address, name = ctx.at[ctx.params["listener"]], ctx.params["name"].encode()
    if not wait_until(lambda: exchange_datagram(address, b"x") is not None):
        yield "no answer to a datagram"
        return
    for data in (b"hello", bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n", 1_200 * b"y"):
        if (got := exchange_datagram(address, data)) != name + b": " + data:
            yield f"{len(data)} bytes {data[:20]!r}: {None if got is None else got[:60]!r} came back"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(_WAIT)
        sock.connect(address)
        try:
            for number in range(5):
                sock.send(b"%d" % number)
                if (got := sock.recv(1_000)) != name + b": %d" % number:
                    yield f"datagram {number + 1} of one client: {got!r}"
        except TimeoutError:
            yield "no answer to a further datagram of one client"


def udp_large(ctx: ScriptContext) -> Iterator[str]:
    """Datagrams that the network sends in fragments pass whole, up to the largest that UDP can hold."""
    address, name = ctx.at[ctx.params["listener"]], ctx.params["name"].encode() + b": "
    wait_until(lambda: exchange_datagram(address, b"x") is not None)
    for size in (2_000, 17_000, 65_507):  # of the answer, which has the name in front
        got = exchange_datagram(address, (size - len(name)) * b"y")
        if got is None or len(got) != size:
            yield f"answer of {size} bytes: {None if got is None else len(got)} came back"


def udp_balanced(ctx: ScriptContext) -> Iterator[str]:
    """Clients are spread over the endpoints."""
    address, names = ctx.at[ctx.params["listener"]], ctx.params["names"]
    wait_until(lambda: exchange_datagram(address, b"x") is not None)
    found = Counter((exchange_datagram(address, b"x") or b"none").partition(b":")[0].decode() for _ in range(40))
    if set(found) != set(names) or min(found.values()) < 12:
        yield f"40 clients: {dict(found)}, expected about 20 for each of {names}"


def udp_access(ctx: ScriptContext) -> Iterator[str]:
    """A client that is denied gets nothing, and nothing of it reaches an endpoint."""
    address, denied = ctx.at[ctx.params["listener"]], ctx.params.get("denied", "127.0.0.66")
    if not wait_until(lambda: exchange_datagram(address, b"x") is not None):
        yield "no answer to a client that is not denied"
    before = ctx.endpoints.requests[ctx.params["name"]]
    got = exchange_datagram(address, b"x", denied)
    if got is not None or ctx.endpoints.requests[ctx.params["name"]] != before:
        yield f"a denied client got {got!r}"
