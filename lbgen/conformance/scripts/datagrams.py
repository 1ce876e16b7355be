"""UDP: what goes to an endpoint and what comes back."""

from __future__ import annotations

import socket
from collections import Counter
from typing import TYPE_CHECKING

from lbgen.conformance.scripts.stage import datagram, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage

_WAIT = 1.0  # seconds for an answer


def udp_untouched(stage: Stage) -> Iterator[str]:
    """Datagrams of any bytes and sizes reach the endpoint whole, and its answers come from the listener's address."""
    address, name = stage.at[stage.params["listener"]], stage.params["name"].encode()
    if not eventually(lambda: datagram(address, b"x") is not None):
        yield "no answer to a datagram"
        return
    for data in (b"hello", bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n", 1_200 * b"y"):
        if (got := datagram(address, data)) != name + b": " + data:
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


def udp_balanced(stage: Stage) -> Iterator[str]:
    """Clients are spread over the endpoints."""
    address, names = stage.at[stage.params["listener"]], stage.params["names"]
    eventually(lambda: datagram(address, b"x") is not None)
    found = Counter((datagram(address, b"x") or b"none").partition(b":")[0].decode() for _ in range(40))
    if set(found) != set(names) or min(found.values()) < 12:
        yield f"40 clients: {dict(found)}, expected about 20 for each of {names}"


def udp_access(stage: Stage) -> Iterator[str]:
    """A client that is denied gets nothing, and nothing of it reaches an endpoint."""
    address, denied = stage.at[stage.params["listener"]], stage.params.get("denied", "127.0.0.66")
    if not eventually(lambda: datagram(address, b"x") is not None):
        yield "no answer to a client that is not denied"
    before = stage.endpoints.requests[stage.params["name"]]
    got = datagram(address, b"x", denied)
    if got is not None or stage.endpoints.requests[stage.params["name"]] != before:
        yield f"a denied client got {got!r}"
