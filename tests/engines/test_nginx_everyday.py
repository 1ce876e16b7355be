"""nginx on this host: what edges meet every day, with nginx's own means."""

from __future__ import annotations

import json
import socket
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import RequestReceived

from lbgen.engines.nginx import ENGINE
from lbgen.engines.nginx.support import VERSIONS
from tests.support.nginx_process import BINARIES, OK, PORT, ask, connect, endpoint, parts, send, serving, status

if TYPE_CHECKING:
    from lbgen.engines.api import Binary

pytestmark = pytest.mark.engines

ONE, CLOSED = 21204, 21205
EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = EVENTS + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(params=BINARIES)
def binary(request) -> Binary:
    return request.param


def topology(route: dict | None = None, *, address: str = f"127.0.0.1:{ONE}", **pool) -> dict:
    return {
        "listeners": {"web": {"port": PORT}},
        "pools": {"p": {"endpoints": [{"address": address}], **pool}},
        "routes": [{"name": "r", "forward": "p", **(route or {})}],
    }


def answer_ok(_: bytes, client: socket.socket) -> None:
    client.sendall(OK + b"public\n")


@pytest.mark.parametrize(
    "health",
    [
        {},
        {"passive": {"failures": 3, "eject_for": "1s"}},
        {"active": {"path": "/", "interval": "1s", "timeout": "500ms", "fall": 3, "rise": 2}},
    ],
    ids=["none", "passive", "active"],
)
def test_a_retry_goes_to_another_endpoint(binary, tmp_path, health):
    """One of two endpoints is closed; the checks are those of nginx alone, which nobody tells of it."""
    pool = {"endpoints": [{"address": f"127.0.0.1:{port}"} for port in (ONE, CLOSED)]}
    made = topology({"retries": {"max": 1, "on": ["connect_failure", "reset"]}})
    made["pools"]["p"] = pool | ({"health": health} if health else {})
    with endpoint(ONE, answer_ok), serving(binary, tmp_path, made), ThreadPoolExecutor(8) as clients:
        found = Counter(status(answer) for answer in clients.map(ask, ["/"] * 800))
    assert found == {"200": 800}


def test_a_post_is_retried_only_where_nothing_was_sent(binary, tmp_path):
    tries: list[bytes] = []

    def close(asked: bytes, _: socket.socket) -> None:
        tries.append(asked.split(b" ", 1)[0])

    pool = {"endpoints": [{"address": f"127.0.0.1:{port}"} for port in (ONE, ONE + 2)]}
    made = topology({"retries": {"max": 1, "on": ["connect_failure", "reset"]}}) | {"pools": {"p": pool}}
    with endpoint(ONE, close), endpoint(ONE + 2, close), serving(binary, tmp_path, made):
        with closing(socket.create_connection(("127.0.0.1", PORT), 5)) as client:
            client.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
            assert client.recv(12) == b"HTTP/1.1 502"
        assert status(ask()) == "502"
    assert tries == [b"POST", b"GET", b"GET"]


def test_localhost_needs_no_name_server(binary, tmp_path):
    with endpoint(ONE, answer_ok), serving(binary, tmp_path, topology(address=f"localhost:{ONE}")):
        assert status(ask()) == "200"


def test_control_fields_of_endpoints_are_nginxs_own(binary, tmp_path):
    """X-Accel-Redirect would lead past the rules of routes."""

    def answer(_: bytes, client: socket.socket) -> None:
        client.sendall(OK[:-2] + b"X-Accel-Redirect: /other\r\nX-Accel-Limit-Rate: 1\r\n\r\nright!\n")

    with endpoint(ONE, answer), serving(binary, tmp_path, topology()):
        found = ask()
    assert found.endswith(b"right!\n")
    assert b"x-accel" not in found.lower()


@pytest.mark.parametrize(
    ("route", "head", "flows"),
    [
        ({}, CHUNKED, True),
        ({}, EVENTS + b"\r\n", False),
        ({}, EVENTS + b"X-Accel-Buffering: no\r\n\r\n", True),
        ({"buffering": {"response": False}}, EVENTS + b"\r\n", True),
        ({"compression": {"types": ["text/event-stream"], "min_size": "0B"}}, CHUNKED, True),
    ],
    ids=["chunked", "neither", "by_endpoint", "by_topology", "compressed"],
)
def test_streams_flow(binary, tmp_path, route, head, flows):
    """But for one without a length and chunks, unless somebody says so: a habit."""

    def answer(_: bytes, client: socket.socket) -> None:
        client.sendall(head)
        for number in range(3):
            event = b"data: %d\n\n" % number
            client.sendall(b"%x\r\n%s\r\n" % (len(event), event) if head is CHUNKED else event)
            time.sleep(0.3)
        if head is CHUNKED:
            client.sendall(b"0\r\n\r\n")

    with endpoint(ONE, answer), serving(binary, tmp_path, topology(route)):
        times = [seconds for seconds, _ in parts("/", "Accept-Encoding: gzip")]
    assert any(0.15 < seconds < times[-1] - 0.15 for seconds in times) is flows


def test_limits_precede_an_answer_of_nginx(binary, tmp_path):
    limited = topology({"respond": {"status": 200, "body": "x"}, "rate_limit": {"rate": "1/m", "key": "client_ip"}})
    del limited["routes"][0]["forward"]
    moved = topology({"redirect": {"host": "b.example"}, "rate_limit": {"rate": "1/m", "key": "client_ip"}})
    del moved["routes"][0]["forward"]
    for made, first in ((limited, "200"), (moved, "302")):
        with serving(binary, tmp_path, made):
            assert [status(ask()) for _ in range(2)] == [first, "429"]


def test_heads_are_limited_within_a_factor_of_two(binary, tmp_path):
    made = topology()
    made["listeners"]["web"]["limits"] = {"headers": "8KiB", "target": "2KiB"}
    with endpoint(ONE, answer_ok), serving(binary, tmp_path, made):
        assert status(ask("/" + "a" * 2000, *(f"X-{n}: {'v' * 500}" for n in range(15)))) == "200"
        assert status(ask("/", "X: " + "v" * 8000)) == "200"
        for lines in ([f"X-{n}: {'v' * 500}" for n in range(34)], [f"X-{n}: 1" for n in range(2000)]):
            assert status(ask("/", *lines))[:1] == "4"
        assert status(ask("/" + "a" * 2049))[:1] == "4"


def test_connections_have_a_log(binary, tmp_path):
    made = topology({"listeners": ["web"]}) | {"listeners": {"web": {"port": PORT, "mode": "l4"}}}
    with endpoint(ONE, answer_ok), serving(binary, tmp_path, made):
        assert status(ask()) == "200"
        time.sleep(1.2)  # nginx writes its buffer each second
    (line,) = [x for x in (tmp_path / "access.log").read_text().splitlines() if '"sent":"0"' not in x]
    found = json.loads(line)
    assert (found["listener"], found["pool"], found["endpoint"]) == ("web", "p", f"127.0.0.1:{ONE}")
    assert (found["client"], found["status"], int(found["received"]) > 0) == ("127.0.0.1", "200", True)
    assert ENGINE.access_record(line) is None  # it is of a connection, not of a request


def test_a_grpc_call_has_its_authority_and_no_other_field(binary, tmp_path):
    grpc = pytest.importorskip("grpc", reason="no grpcio here")
    if not VERSIONS[binary.version.rpartition(".")[0]].http2_directive:
        pytest.skip("it serves HTTP/2 beside HTTP/1 over TLS only")
    seen = []

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            seen.append({key for key, _ in details.invocation_metadata if not key.startswith("x-")})
            return grpc.unary_unary_rpc_method_handler(lambda asked, context: asked)

    server = grpc.server(ThreadPoolExecutor(1), handlers=(Handler(),))
    server.add_insecure_port(f"127.0.0.1:{ONE}")
    made = topology(protocol="grpc") | {"listeners": {"web": {"port": PORT, "http2": True}}}
    server.start()
    try:
        for port in (ONE, PORT):
            with serving(binary, tmp_path, made), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                assert channel.unary_unary("/a.B/C")(b"hello", timeout=5) == b"hello"
    finally:
        server.stop(None).wait()
    assert seen[0] == seen[1]


def test_an_http2_endpoint_gets_the_handshake_of_a_websocket_as_a_get(binary, tmp_path):
    """A habit: nginx has no extended CONNECT."""
    seen: list[dict[bytes, bytes]] = []

    def answer(asked: bytes, client: socket.socket) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        connection.initiate_connection()
        while True:
            for event in connection.receive_data(asked):
                if isinstance(event, RequestReceived):
                    seen.append(dict(event.headers))
                    connection.send_headers(event.stream_id, [(b":status", b"200")], end_stream=True)
            client.sendall(connection.data_to_send())
            if not (asked := client.recv(65536)):
                return

    handshake = ("Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAA")
    with (
        endpoint(ONE, answer),
        serving(binary, tmp_path, topology(protocol="http2")),
        closing(connect("/", *handshake)) as client,
    ):
        assert client.recv(12) == b"HTTP/1.1 200"
    assert seen[0][b":method"] == b"GET"
    assert not seen[0].keys() & {b"upgrade", b"connection", b":protocol"}


def test_no_bare_bytes_get_between_the_frames_of_http2(binary, tmp_path):
    """An upgrade over HTTP/2 is malformed; nginx before 1.31 forwards it, and the answer as bytes of a tunnel."""
    if not VERSIONS[binary.version.rpartition(".")[0]].http2_directive:
        pytest.skip("it serves HTTP/2 beside HTTP/1 over TLS only")
    asked = []

    def answer(head: bytes, client: socket.socket) -> None:
        asked.append(head.lower())
        switching = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\nbare bytes"
        client.sendall(switching if b"\r\nupgrade: websocket" in asked[-1] else OK + b"public\n")

    made = topology() | {"listeners": {"web": {"port": PORT, "http2": True}}}
    with endpoint(ONE, answer), serving(binary, tmp_path, made):
        assert status(ask("/", "Connection: upgrade", "Upgrade: websocket")) == "101"
        connection = H2Connection(H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False))
        connection.initiate_connection()
        head = ((":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h"))
        connection.send_headers(1, (*head, ("upgrade", "websocket")), end_stream=True)
        got = send(connection.data_to_send(), 0.5)
    assert got
    assert b"bare" not in got
    assert not any(b"upgrade" in each for each in asked[1:])
