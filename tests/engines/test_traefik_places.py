"""Traefik's real binary: whatever a client or an endpoint does, a place that a request took is given back in time."""

from __future__ import annotations

import json
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.http1_client import fetch, serialize
from lbgen.engines.traefik import ENGINE
from lbgen.plan.model import (
    Balance,
    ClientTimeouts,
    Endpoint,
    Forward,
    HeaderEdits,
    Plan,
    Pool,
    Route,
    Target,
    Timeouts,
)
from lbgen.plan.policy import Concurrency, Key, KeyKind, Queue, Retries, RetryCause
from lbgen.plan.request import Request
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.plans import by_prefix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.conformance.http1_client import Address

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not candidates(ENGINE), reason="no traefik here")]
IDLE = 600  # milliseconds
PORTS = 23_500
PLACES = 3
LARGE = 64 << 20  # bytes, more than loopback's buffers take
FULL = {"/endpoint": 503, "/route": 429, "/total": 429, "/queue": 503, "/retry": 503}
_MARGIN = 3.5  # seconds that a busy host may take for it


def _plan(port: int, backend: int) -> Plan:
    """`/endpoint`, `/queue` and `/retry` are limited by their pools, `/route` and `/total` by themselves; `/total` has
    a time for the whole request and no idle time."""
    ends = (Endpoint("127.0.0.1", backend, 1, "pools.p.endpoints[0]", is_ip=True),)
    queue = Queue(2, 200)
    pools = (
        Pool("endpoint", Balance.ROUND_ROBIN, ends, "pools.endpoint", max_per_endpoint=PLACES),
        Pool("route", Balance.ROUND_ROBIN, ends, "pools.route"),
        Pool("queue", Balance.ROUND_ROBIN, ends, "pools.queue", max_per_endpoint=PLACES, queue=queue),
        Pool("retry", Balance.ROUND_ROBIN, ends, "pools.retry", max_per_endpoint=PLACES),
    )
    most = Concurrency(PLACES, Key(KeyKind.ROUTE))
    retries = Retries(2, frozenset({RetryCause.RESET, RetryCause.CONNECT_FAILURE}), (), all_methods=True)
    named = {
        "endpoint": (Timeouts(500, 3000, IDLE), None, None),
        "route": (Timeouts(500, 3000, IDLE), most, None),
        "total": (Timeouts(500, 3000, 0, 900), most, None),
        "queue": (Timeouts(500, 3000, IDLE), None, None),
        "retry": (Timeouts(500, 3000, IDLE), None, retries),
    }
    routes = []
    for i, (name, (times, concurrency, again)) in enumerate(named.items()):
        target = Target("route" if name == "total" else name, 1, HeaderEdits(), "")
        action = Forward((target,), times, retries=again)
        routes.append(Route(name, i, action, f"routes[{i}]", concurrency=concurrency))
    return by_prefix(port, routes, pools, timeouts=ClientTimeouts(1000, 1000, 5000))


@pytest.fixture(scope="module")
def served() -> Iterator[Address]:
    backend = free_port("127.0.0.1", PORTS)
    port = free_port("127.0.0.1", PORTS, frozenset({backend}))
    stand_ins = (StandIn("one", "p", "127.0.0.1", backend),)
    with stand_in_servers(stand_ins), run_engine(ENGINE, _plan(port, backend), accept=("all",)) as handle:
        yield handle.address("web")


def _asked(path: str, mode: str, method: str = "GET", *headers: tuple[str, str], **more: object) -> bytes:
    control = json.dumps({"mode": mode, **more})
    return serialize(Request(method, path, (("Host", "h"), (CONTROL, control), *headers)))


def _push(connection: socket.socket, seconds: float = 0.5) -> None:
    """Send until nobody takes more."""
    connection.settimeout(seconds)
    with suppress(OSError):
        while True:
            connection.send(b"x" * 65_536)


def _gone(connection: socket.socket) -> None:
    """Leave with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _simple(mode: str, method: str = "GET", **more: object) -> Callable[[socket.socket, str], None]:
    """The client reads what comes."""

    def fault(connection: socket.socket, path: str) -> None:
        headers = (("Content-Length", "0"),) if method == "POST" else ()
        connection.sendall(_asked(path, mode, method, ("Connection", "close"), *headers, **more))
        with suppress(OSError):
            while connection.recv(65_536):
                pass

    return fault


def _leaves(how: Callable[[socket.socket], None], mode: str, **more: object) -> Callable[[socket.socket, str], None]:
    """The client leaves after a moment."""

    def fault(connection: socket.socket, path: str) -> None:
        connection.sendall(_asked(path, mode, **more))
        time.sleep(0.1)
        how(connection)

    return fault


def _half_a_body(connection: socket.socket, path: str) -> None:
    connection.sendall(_asked(path, "json", "POST", ("Content-Length", "10")) + b"half")
    time.sleep(0.1)
    connection.close()


def _silent_body(connection: socket.socket, path: str) -> None:
    connection.sendall(_asked(path, "json", "POST", ("Content-Length", "10")) + b"half")


def _bad_chunk(connection: socket.socket, path: str) -> None:
    connection.sendall(_asked(path, "json", "POST", ("Transfer-Encoding", "chunked")) + b"zz\r\n")


def _deaf_endpoint(connection: socket.socket, path: str) -> None:
    connection.sendall(_asked(path, "deaf", "POST", ("Content-Length", str(LARGE))))
    _push(connection)


def _deaf_endpoint_and_gone(connection: socket.socket, path: str) -> None:
    _deaf_endpoint(connection, path)
    _gone(connection)


def _deaf_client(connection: socket.socket, path: str) -> None:
    connection.sendall(_asked(path, "fixed", body="x", size=LARGE // 4))
    connection.recv(1)


def _tunnel_left(connection: socket.socket, path: str) -> None:
    _shaken(connection, path)
    _gone(connection)


def _shaken(connection: socket.socket, path: str) -> None:
    lines = ("Host: h", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
             "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==")  # fmt: skip
    connection.sendall("\r\n".join((f"GET {path} HTTP/1.1", *lines, "", "")).encode())
    assert connection.recv(20).startswith(b"HTTP/1.1 101")


FAULTS = {
    **{mode: _simple(mode) for mode in ("close", "reset", "reset_body", "stall_body", "garbage")},
    "post to one that closes": _simple("close", "POST"),
    "slow answer": _simple("drip", wait_ms=200, count=10),
    "client leaves one that hangs": _leaves(socket.socket.close, "hang"),
    "client resets one that hangs": _leaves(_gone, "hang"),
    "client leaves within the answer": _leaves(_gone, "drip", wait_ms=50, count=200),
    "client leaves within a large answer": _leaves(_gone, "fixed", body="x", size=LARGE // 8),
    "half a body": _half_a_body,
    "body that stops": _silent_body,
    "bad chunk": _bad_chunk,
    "endpoint that does not read": _deaf_endpoint,
    "endpoint that does not read, client gone": _deaf_endpoint_and_gone,
    "client that does not read": _deaf_client,
    "tunnel that is silent": _shaken,
    "tunnel that is left": _tunnel_left,
}
# Without an idle time these last as long as the client stays, a body as long as `client_body` says.
_UNTIMED = {"body that stops", "tunnel that is silent", "tunnel that is left"}


@pytest.mark.parametrize("path", FULL)
@pytest.mark.parametrize("name", FAULTS)
def test_every_place_is_given_back(served, name, path):
    if path == "/total" and name in _UNTIMED:
        pytest.skip("lasts as long as the client stays or its body may take")
    with ExitStack() as stack, ThreadPoolExecutor(PLACES) as pool:
        clients = [stack.enter_context(socket.create_connection(served, timeout=4)) for _ in range(PLACES)]
        done = [pool.submit(FAULTS[name], client, path) for client in clients]
        for one in done:
            one.result()
        assert _places(served, path) == PLACES  # while those that did not leave are still there


def _places(served: Address, path: str) -> int:
    """How many requests at a time are served, once those before had their time: at most one more than there may be."""
    end = time.monotonic() + IDLE / 1000 + _MARGIN
    while True:
        time.sleep(0.2)
        hang = Request("GET", path, (("Host", "h"), (CONTROL, '{"mode": "hang", "wait_ms": 450}')))
        with ThreadPoolExecutor(PLACES + 1) as pool:
            statuses = [one.result().status for one in [pool.submit(fetch, served, hang) for _ in range(PLACES + 1)]]
        assert set(statuses) <= {200, FULL[path]}
        if statuses.count(200) >= PLACES or time.monotonic() > end:
            return statuses.count(200)
