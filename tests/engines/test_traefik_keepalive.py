"""Traefik's real binary, kept connections: the first line of a head is judged whatever the lines below it are."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lbgen.engines.traefik import ENGINE
from lbgen.plan.model import ClientTimeouts, Timeouts
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support import plans
from tests.support.plans import by_prefix, endpoint, forward, route

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not candidates(ENGINE), reason="no traefik here")]
PORTS = 23_700
LINES = "Host: h\r\nX-A: b\r\n"


@pytest.fixture(scope="module", params=[True, False], ids=["adds", "bare"])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """A listener that adds headers, and one that adds none, whose route is called in another way."""
    port = free_port("127.0.0.1", PORTS)
    front = free_port("127.0.0.1", PORTS, frozenset({port}))
    pool = plans.pool("p", endpoint("127.0.0.1", port, 1))
    routes = (route("p", forward("p", times=Timeouts(1000, 2000, 5000)), 0),)
    adds = {"forwarded_headers": request.param, "request_id": request.param}
    plan = by_prefix(front, routes, (pool,), timeouts=ClientTimeouts(1000, 1000, 5000), **adds)
    stand_in = StandIn("one", "p", "127.0.0.1", port)
    with stand_in_servers((stand_in,)), run_engine(ENGINE, plan, accept=("all",)) as handle:
        yield handle.address("web")


@contextmanager
def kept(address: tuple[str, int]) -> Iterator[Connection]:
    """A connection on which three requests of the same lines were answered."""
    with socket.create_connection(address, timeout=5) as connected:
        connection = Connection(connected)
        for number in range(3):
            status, body = connection.ask(f"GET /p/{number}?a=b HTTP/1.1", LINES)
            assert status == 200
            assert f"/p/{number}?a=b" in body
        yield connection


class Connection:
    """Requests one after another."""

    def __init__(self, connected: socket.socket) -> None:
        self.connected = connected

    def ask(self, first: str, lines: str) -> tuple[int, str]:
        """The status and the body of the answer."""
        self.connected.sendall(f"{first}\r\n{lines}\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            got += self.receive()
        head, _, body = got.partition(b"\r\n\r\n")
        lengths = [
            line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
        ]
        if not lengths:  # an answer of Go's server, which closes
            return int(head.split()[1]), ""
        length = int(lengths[0])
        while len(body) < length:
            body += self.receive()
        return int(head.split()[1]), body.decode()

    def receive(self) -> bytes:
        """What comes next."""
        chunk = self.connected.recv(65536)
        assert chunk, "closed"
        return chunk


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("GET /p/4 HTTP/1.1", 200),
        ("GET /p//x HTTP/1.1", 400),
        ("GET /p/../x HTTP/1.1", 400),
        ("GET /p/%2e%2e/x HTTP/1.1", 400),
        ("GET /lost HTTP/1.1", 404),
        ("TRACE /p HTTP/1.1", 405),
        ("GET http://other/p HTTP/1.1", 400),
        ("GET /p HTTP/1.1\r\nHost: other", 400),
        ("GET /p HTTP/1.1\r\nX-B: c\r\n folded", 400),
    ],
)
def test_a_first_line_is_judged_above_known_lines(address, first, status):
    with kept(address) as connection:
        assert connection.ask(first, LINES)[0] == status


def test_a_request_that_comes_during_an_answer_is_judged_whole(address):
    """net/http looks whether a client leaves while it is answered, and so gets the first byte of its next request."""
    for number in range(60):
        with socket.create_connection(address, timeout=5) as connected:
            connected.sendall(f"GET /p/{number} HTTP/1.1\r\n{LINES}\r\n".encode())
            time.sleep(number % 10 * 0.0003)  # some of these moments are within the answer
            connected.sendall(f"GET /p HTTP/1.1\r\nX-B: c\r\n folded\r\n{LINES}\r\n".encode())
            answers = b""
            while answers.count(b"HTTP/1.1 ") < 2:
                answers += Connection(connected).receive()
            assert b"HTTP/1.1 400 " in answers


def test_other_lines_are_judged_after_known_ones(address):
    with kept(address) as connection:
        status, body = connection.ask("GET /p HTTP/1.1", LINES + "X_Hidden: yes\r\nX-Seen: yes\r\n")
        assert status == 200
        assert "X-Seen" in body
        assert "X_Hidden" not in body
        status, body = connection.ask("GET /p/5 HTTP/1.1", LINES)
        assert status == 200
        assert "X-Seen" not in body
        assert connection.ask("GET /p HTTP/1.1", "Host: another\r\nX-A: b\r\n")[0] == 200
        assert connection.ask("GET /p HTTP/1.1", "X-A: b\r\n")[0] == 400


def test_requests_that_come_together_are_answered_in_turn(address):
    with kept(address) as connection:
        both = "".join(f"GET /p/{number} HTTP/1.1\r\n{LINES}\r\n" for number in (7, 8))
        connection.connected.sendall(both.encode())
        got = b""
        while got.count(b"HTTP/1.1 200") < 2 or b"/p/8" not in got:
            got += connection.receive()
        assert got.index(b"/p/7") < got.index(b"/p/8")
