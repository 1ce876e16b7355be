"""HAProxy's real binaries: no client passes a rule, and no request becomes part of another one."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import h2.config
import h2.connection
import h2.events
import pytest

from lbgen.conformance.prepare import plan_of
from tests.engines.test_haproxy import BINARIES, free_port, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.engines.api import Binary
    from lbgen.plan.model import Plan

pytestmark = pytest.mark.engines

UPLOAD = 5_000_000


@pytest.fixture(params=BINARIES)
def binary(request) -> Binary:
    return request.param


class Endpoint:
    """Answers each request as soon as it has its head, and keeps its connection. `bodies` is what came as the body of
    an upload, `heads` are those of all requests."""

    def __init__(self, server: socket.socket) -> None:
        self.port = server.getsockname()[1]
        self.heads: list[str] = []
        self.bodies = b""
        self.connections = 0
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        data, left = b"", 0
        with connection, suppress(OSError):
            while piece := connection.recv(65536):
                data += piece
                while data:
                    if left:
                        body, data = data[:left], data[left:]
                        left -= len(body)
                        self.bodies += body
                        continue
                    head, mark, rest = data.partition(b"\r\n\r\n")
                    if not mark:
                        break
                    data = rest
                    self.heads.append(head.decode())
                    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                    left = int(lengths[0].partition(b":")[2]) if lengths else 0
                    status = b"401 Unauthorized" if left else b"200 OK"
                    connection.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\n\r\nok")


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Endpoint(server)


def plan(at: int, *, listener: dict[str, object] | None = None, routes: list[dict[str, object]] | None = None) -> Plan:
    return plan_of(
        {
            "version": 1,
            "name": "safe",
            "profile": "minimal",
            "forwarded_headers": True,
            "listeners": {"web": {"port": free_port(), "address": "127.0.0.1", **(listener or {})}},
            "pools": {"p": {"endpoints": [{"address": f"127.0.0.1:{at}"}]}},
            "routes": routes or [{"name": "all", "forward": "p"}],
        }
    )


def status(port: int, target: str, *lines: str, proxy: str = "", requests: int = 1) -> list[int]:
    """The statuses of as many requests on one connection; 0 for one that stays unanswered."""
    found = []
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(5)
        client.sendall(proxy.encode())
        for _ in range(requests):
            client.sendall("\r\n".join([f"GET {target} HTTP/1.1", "Host: a.test", *lines, "", ""]).encode())
            try:
                found.append(int((client.recv(65536).split() or [b"", b"0"])[1]))
            except TimeoutError:
                found.append(0)
    return found


def short_upload(port: int, sent: bytes) -> str:
    """The status of an upload over HTTP/2 whose stream ends after `sent`, in an empty frame."""
    known = ""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(0.5)
        state = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        state.initiate_connection()
        head = [(":method", "PUT"), (":scheme", "http"), (":authority", "a.test"), (":path", "/upload")]
        state.send_headers(1, [*head, ("content-length", str(UPLOAD))])
        if sent:
            state.send_data(1, sent)
        client.sendall(state.data_to_send())
        with suppress(OSError):
            while not known and (data := client.recv(65536)):
                answers = [e for e in state.receive_data(data) if isinstance(e, h2.events.ResponseReceived)]
                known = "".join(dict(each.headers)[":status"] for each in answers)
                client.sendall(state.data_to_send())
            client.sendall(b"\0\0\0\0\1\0\0\0\1")  # DATA without bytes, END_STREAM
            time.sleep(0.05)
    return known


@pytest.mark.parametrize("sent", [b"", b"x" * 1000], ids=["no-body", "some-body"])
def test_a_request_never_becomes_the_body_of_an_upload_that_ends_short(binary, tmp_path: Path, sent: bytes) -> None:
    """HAProxy before 3.2 takes the short body for whole, and would give the endpoint's connection to another client."""
    with endpoint() as own, serving(plan(own.port, listener={"http2": True}), binary, tmp_path) as port:
        assert status(port, "/warm", requests=4) == [200] * 4
        for n in range(15):
            assert short_upload(port, sent) == "401"
            assert status(port, f"/victim/{n}", "Cookie: secret", requests=2) == [200, 200]
        assert b"victim" not in own.bodies
        assert sum("/victim/" in head for head in own.heads) == 30


def test_requests_without_a_body_share_connections(binary, tmp_path: Path) -> None:
    with endpoint() as own, serving(plan(own.port), binary, tmp_path) as port:
        assert status(port, "/", requests=30) == [200] * 30
        assert own.connections == 1


ADMIN = [
    {"name": "admin", "match": [{"path": {"prefix": "/admin"}}], "forward": "p", "access": {"allow": ["10.0.0.0/8"]}},
    {"name": "public", "match": [{"path": {"prefix": "/public"}}], "forward": "p"},
]
SPELLINGS = [
    "/public/../admin/x",
    "/public/%2e%2e/admin/x",
    "/public/.%2E/admin/x",
    "/public/..%2fadmin/x",
    "/public%2f..%2fadmin/x",
    "/public/..\\admin/x",
    "/public//../admin/x",
    "//admin/x",
    "/./admin/x",
    "/%61dmin/x",
    "/public/%2e%2e%2fadmin",
    "/public/..",
    "/public/%5c..%5cadmin",
    "http://a.test/public/../admin/x",
]


def test_no_spelling_of_a_path_passes_a_rule(binary, tmp_path: Path) -> None:
    with endpoint() as own, serving(plan(own.port, routes=ADMIN), binary, tmp_path) as port:
        assert status(port, "/public/x") == [200]
        assert status(port, "/admin/x") == [403]
        del own.heads[:]
        answers = {spelling: status(port, spelling)[0] for spelling in SPELLINGS}
        assert {spelling: each for spelling, each in answers.items() if not 400 <= each < 500} == {}
        assert own.heads == []


def test_what_browsers_send_raw_passes(binary, tmp_path: Path) -> None:
    with endpoint() as own, serving(plan(own.port), binary, tmp_path) as port:
        for target in ("/a|b{c}^`d", "/?a|b{c}^`d\\e/../f//g"):
            assert status(port, target) == [200], target
            assert own.heads[-1].startswith(f"GET {target} HTTP")


@pytest.mark.parametrize("named", ["X-Forwarded-For", "X-Request-Id, close", "keep-alive, x-own", "cookie", "host"])
def test_a_client_cannot_have_a_field_dropped(binary, tmp_path: Path, named: str) -> None:
    with endpoint() as own, serving(plan(own.port), binary, tmp_path) as port:
        assert 400 <= status(port, "/", f"Connection: {named}")[0] < 500
        assert own.heads == []
        for usual in ("keep-alive", "close", "Keep-Alive, TE", "Upgrade, HTTP2-Settings", "close, ,te"):
            assert status(port, "/", f"Connection: {usual}") == [200], usual


MAPPED = "PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n"


def test_a_mapped_address_of_a_proxy_header_is_the_ipv4_address(binary, tmp_path: Path) -> None:
    listener = {"proxy_protocol": "accept", "access": {"deny": ["192.0.2.0/25"]}}
    with endpoint() as own, serving(plan(own.port, listener=listener), binary, tmp_path) as port:
        assert status(port, "/", proxy=MAPPED) == [403]
        assert status(port, "/", proxy=MAPPED.replace("2.7", "2.200")) == [200]
        assert "\r\nx-forwarded-for: 192.0.2.200\r\n" in own.heads[-1].lower()


def test_mapped_and_plain_addresses_share_a_rate(binary, tmp_path: Path) -> None:
    rate = {"rate": "2/m", "burst": 2, "key": "client_ip"}
    routes = [{"name": "all", "forward": "p", "rate_limit": rate}]
    plain = "PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n"
    listener = {"proxy_protocol": "accept"}
    with endpoint() as own, serving(plan(own.port, listener=listener, routes=routes), binary, tmp_path) as port:
        found = [status(port, "/", proxy=proxy)[0] for proxy in (MAPPED, plain, MAPPED, plain)]
        assert found == [200, 200, 429, 429]


def test_mapped_addresses_that_proxies_forward_are_ipv4_addresses(binary, tmp_path: Path) -> None:
    listener = {"trusted_proxies": ["127.0.0.0/8"], "access": {"deny": ["192.0.2.0/24"]}}
    with endpoint() as own, serving(plan(own.port, listener=listener), binary, tmp_path) as port:
        for line in ("192.0.2.7", "::ffff:192.0.2.7", "::FFFF:c000:207", "192.0.2.7,::ffff:127.0.0.1"):
            assert status(port, "/", f"X-Forwarded-For: {line}") == [403], line
        for line in ("198.51.100.7", "::ffff:198.51.100.7", "192.0.2.7, 198.51.100.7"):
            assert status(port, "/", f"X-Forwarded-For: {line}") == [200], line
    rate = {"rate": "2/m", "burst": 2, "key": "client_ip"}
    listener = {"trusted_proxies": ["127.0.0.0/8"]}
    routes = [{"name": "all", "forward": "p", "rate_limit": rate}]
    with endpoint() as own, serving(plan(own.port, listener=listener, routes=routes), binary, tmp_path) as port:
        lines = ("192.0.2.7", "::ffff:192.0.2.7", "::ffff:c000:207")
        assert [status(port, "/", f"X-Forwarded-For: {line}")[0] for line in lines] == [200, 200, 429]


def test_rules_of_l4_take_mapped_addresses_for_ipv4(binary, tmp_path: Path) -> None:
    listener = {"mode": "l4", "proxy_protocol": "accept"}
    routes = [
        {
            "name": "all",
            "listeners": ["web"],
            "sources": ["192.0.2.0/24"],
            "forward": "p",
            "access": {"deny": ["192.0.2.7/32"]},
        }
    ]
    with endpoint() as own:
        data = plan(own.port, listener=listener, routes=routes)
        with serving(data, binary, tmp_path) as port:
            assert status(port, "/", proxy=MAPPED) == [0]
            assert status(port, "/", proxy=MAPPED.replace("2.7", "2.8")) == [200]
            assert status(port, "/", proxy=MAPPED.replace("192.0.2.7", "198.51.100.7")) == [0]


FORGED = ("X-Forwarded-For: 10.0.0.1", "X-Forwarded-Host: inside.test", "X-Request-Id: 7")


@pytest.mark.parametrize("trusted", [["192.0.2.0/24"], ["127.0.0.0/8"]], ids=["stranger", "trusted"])
def test_only_trusted_proxies_reach_rules_on_what_they_forward(binary, tmp_path: Path, trusted: list[str]) -> None:
    names = [line.partition(":")[0].lower() for line in FORGED]
    routes = [
        *(
            {
                "name": f"r{n}",
                "match": [{"headers": {name: {"present": True}}}],
                "forward": "p",
                "request_headers": {"set": {"x-rule": name}},
            }
            for n, name in enumerate(names)
        ),
        {"name": "rest", "forward": "p"},
    ]
    listener = {"trusted_proxies": trusted}
    with endpoint() as own, serving(plan(own.port, listener=listener, routes=routes), binary, tmp_path) as port:
        for line, name in zip(FORGED, names, strict=True):
            assert status(port, "/", line) == [200]
            assert (f"x-rule: {name}" in own.heads[-1]) == (trusted == ["127.0.0.0/8"])
