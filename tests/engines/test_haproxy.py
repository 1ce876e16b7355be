"""HAProxy's real binaries: long tables and heads, endpoints that close or speak HTTP/2, mirrors that hang."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.conformance.prepare import plan_of
from lbgen.engines.api import target_version
from lbgen.engines.haproxy import ENGINE
from lbgen.engines.rendered import Rendered
from lbgen.plan.model import HeaderEdits, Match, Plan, Respond, Timeouts
from lbgen.plan.path_conditions import RegexPath
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.engine_lists import binaries
from tests.support.plans import by_match, endpoint, equals, forward, pool, prefix, route, topology
from tests.support.websocket import serve_extended_connect

if TYPE_CHECKING:
    from lbgen.engines.api import Binary

pytestmark = pytest.mark.engines

BINARIES = binaries("haproxy")  # parameters of a test
TIMES = Timeouts(1_000, 1_000, 1_000)


@pytest.fixture(params=BINARIES)
def binary(request) -> Binary:
    return request.param


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def minimal(endpoint: int, protocol: str = "http1", route: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A route to an endpoint on that port, and nothing that a profile adds."""
    pool = {"endpoints": [{"address": f"127.0.0.1:{endpoint}"}], "protocol": protocol}
    listener = {"port": free_port(), "address": "127.0.0.1"}
    return topology(route, pool=pool, listener=listener, profile="minimal", **more)


@contextmanager
def serving(plan: Plan, binary: Binary, folder: Path):
    """HAProxy with the plan's files in `folder`; ends with the block."""
    version = target_version(ENGINE, binary.version)
    Rendered("haproxy", version, ENGINE.render(plan, version), ()).write(folder)
    checked = ENGINE.check(plan, binary, folder)
    asked = subprocess.run(checked.argv, cwd=folder, capture_output=True, text=True, check=False)
    assert checked.judge(asked.returncode, asked.stdout + asked.stderr, {}) == ()
    process = subprocess.Popen([str(binary.path), "-db", "-f", "haproxy.cfg"], cwd=folder, stderr=subprocess.PIPE)
    try:
        port = plan.listeners[0].port
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, process.stderr and process.stderr.read().decode()
                time.sleep(0.02)
        yield port
    finally:
        process.kill()
        process.communicate()


def ask(port: int, head: str, *lines: str) -> tuple[int, dict[str, str], str]:
    """Status, headers (latin-1, lower-case names; several lines joined) and body as UTF-8 text of one request."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(10)
        sock.sendall("\r\n".join([f"{head} HTTP/1.1", "Host: a.test", "Connection: close", *lines, "", ""]).encode())
        data = b""
        while piece := sock.recv(65536):
            data += piece
    top, _, body = data.partition(b"\r\n\r\n")
    first, *rest = top.decode().split("\r\n")
    headers: dict[str, str] = {}
    for line in rest:
        name, _, value = line.partition(":")
        name = name.lower()
        headers[name] = f"{headers[name]}, {value.strip()}" if name in headers else value.strip()
    return int(first.split()[1]), headers, body.decode()


def test_a_long_path_makes_no_regex_overflow(binary, tmp_path):
    nested = Match(RegexPath("/(a|b|(c|d)*)*/end"))
    rules = [(nested, route("r", Respond(200, "", ())))]
    with serving(by_match(rules, port=free_port()), binary, tmp_path) as port:
        assert ask(port, "GET /" + "a" * 1_000 + "/end")[0] == 200
        assert ask(port, "GET /" + "a" * 14_000 + "/end")[0] == 404  # PCRE gave up, as the verdict says
        assert ask(port, "GET /" + "ab" * 7_000 + "x")[0] == 404
        assert ask(port, "GET /ab/end?" + "&" * 14_000)[0] == 200


def test_many_edits_rewrites_and_conditions_go_through_maps(binary, tmp_path):
    port, back = free_port(), free_port()
    rules = []
    for n in range(60):
        edits = HeaderEdits(set=(("x-n", f"100% {n}"),), remove=("x-gone",) if n % 2 else ())
        place = prefix(f"/t{n % 3}", headers=(equals("x-tenant", str(n)),))
        rules.append((place, route(f"r{n}", forward("p", times=TIMES), n, request_headers=edits)))
    plan = by_match(rules, (pool("p", endpoint("127.0.0.1", back)),), port)
    with stand_in_servers([StandIn("p", "p", "127.0.0.1", back)]), serving(plan, binary, tmp_path):
        for n in (0, 1, 31, 59):
            status, _, body = ask(port, f"GET /t{n % 3}/x", f"X-Tenant: a, {n}", "X-Gone: 1")
            assert status == 200
            assert f'["x-n", "100% {n}"]' in body
            assert ('"x-gone"' in body) is (n % 2 == 0)
            assert ask(port, f"GET /t{(n + 1) % 3}/x", f"X-Tenant: {n}")[0] == 404
    assert (tmp_path / "maps" / "web.prefix.map").is_file()


FILTERS = {
    "none": {},
    "max_body": {"max_body": "1KiB"},
    "compression": {"compression": {"types": ["application/json"]}},
    "max_body and retries": {"max_body": "1KiB", "retries": {"max": 1, "on": ["connect_failure"]}},
}


@pytest.mark.parametrize("protocol", ["http1", "http2"])
@pytest.mark.parametrize("fields", FILTERS.values(), ids=FILTERS)
def test_requests_whose_endpoint_closes_are_not_kept(binary, tmp_path, fields, protocol) -> None:
    """With filters HAProxy kept such a request and its connections, and sent others over those of HTTP/2."""
    at = free_port()
    data = minimal(at, protocol, fields, timeouts={"connect": "1s", "response": "4s", "idle": "4s"})
    version = target_version(ENGINE, binary.version)
    if version == "2.6" and protocol == "http2":
        pytest.skip("2.6 has its own verdict on HTTP/2 connections that close")
    plan = plan_of(data)
    close = json.dumps({"mode": "close"})
    with stand_in_servers([StandIn("p-0", "p", "127.0.0.1", at)]), serving(plan, binary, tmp_path) as port:
        assert [ask(port, "GET /")[0] for _ in range(4)] == [200] * 4
        before = descriptors(binary)
        assert before
        assert {status(port, f"{CONTROL}: {close}") for _ in range(20)} <= {502, None}  # a habit
        assert [ask(port, "GET /")[0] for _ in range(40)] == [200] * 40
        if protocol == "http1":  # the end of the connection ends the response
            assert [ask(port, "GET /", f'{CONTROL}: {{"mode": "half_close"}}')[0] for _ in range(40)] == [200] * 40
        limit = time.monotonic() + 5
        while descriptors(binary) > before + 6 and time.monotonic() < limit:
            time.sleep(0.1)
        assert descriptors(binary) <= before + 6


def status(port: int, *lines: str) -> int | None:
    """None where HAProxy closes without an answer."""
    with contextlib.suppress(IndexError):
        return ask(port, "GET /", *lines)[0]
    return None


def descriptors(binary: Binary) -> int:
    """Of the HAProxy that this test started."""
    mine = [each for each in Path("/proc").glob("[0-9]*") if is_child(each, binary)]
    return sum(len(list((each / "fd").iterdir())) for each in mine)


def is_child(process: Path, binary: Binary) -> bool:
    try:
        parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
        return parent == os.getpid() and (process / "exe").resolve().name == binary.path.name  # the farm's by a loader
    except OSError:
        return False


def test_te_trailers_reaches_endpoints_that_speak_http2_alone(binary, tmp_path) -> None:
    """grpc servers reset streams that lack it."""
    ends = {name: free_port() for name in ("http1", "http2")}
    data = {
        "version": 1,
        "name": "trailers",
        "profile": "minimal",
        "listeners": {"web": {"port": free_port(), "address": "127.0.0.1"}},
        "pools": {n: {"endpoints": [{"address": f"127.0.0.1:{at}"}], "protocol": n} for n, at in ends.items()},
        "routes": [{"name": n, "match": [{"path": {"prefix": f"/{n}"}}], "forward": n} for n in ends],
    }
    stand_ins = [StandIn(f"{name}-0", name, "127.0.0.1", at) for name, at in ends.items()]
    with stand_in_servers(stand_ins), serving(plan_of(data), binary, tmp_path) as port:
        for name in ends:
            found, _, body = ask(port, f"GET /{name}", "TE: trailers, deflate;q=0.5")
            assert found == 200
            assert ('["te", "trailers"]' in body) == (name == "http2")
            assert "deflate" not in body


def test_a_websocket_reaches_an_endpoint_that_speaks_http2(binary, tmp_path) -> None:
    seen: list[dict[str, str]] = []
    handshake = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    head = "\r\n".join(["GET /x HTTP/1.1", "Host: a.test", "Connection: Upgrade", *handshake, "", ""])
    with socket.create_server(("127.0.0.1", 0)) as server:
        data = minimal(server.getsockname()[1], "http2")
        threading.Thread(target=serve_extended_connect, args=(server, seen), daemon=True).start()
        with serving(plan_of(data), binary, tmp_path) as port, socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(5)
            client.sendall(head.encode())
            assert client.recv(65536).startswith(b"HTTP/1.1 101 ")
    assert [(each[":method"], each[":protocol"], each[":path"]) for each in seen] == [("CONNECT", "websocket", "/x")]


def answer_once(server: socket.socket, data: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(data)


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ("content-length: 2\r\ntransfer-encoding: chunked", "2\r\nok\r\n0\r\n\r\n"),
        ("content-length: 2\r\ncontent-length: 2", "ok"),
    ],
    ids=["coding-and-length", "two-lengths"],
)
def test_odd_lengths_of_an_endpoint_pass_in_one_reading(binary, tmp_path, lines: str, body: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        data = minimal(server.getsockname()[1])
        said = f"HTTP/1.1 200 OK\r\n{lines}\r\n\r\n{body}".encode()
        threading.Thread(target=answer_once, args=(server, said), daemon=True).start()
        with serving(plan_of(data), binary, tmp_path) as port:
            found, headers, got = ask(port, "GET /")
    assert (found, "ok" in got) == (200, True)
    assert "," not in headers.get("content-length", "")
    assert not {"content-length", "transfer-encoding"} <= set(headers)


def test_a_local_proxy_header_is_read_whatever_it_holds(binary, tmp_path) -> None:
    data = minimal(1, route={"match": [{"path": {"prefix": "/x"}}]})
    data["listeners"]["web"]["proxy_protocol"] = "accept"
    signature = b"\r\n\r\n\0\r\nQUIT\n"
    found = {}
    with serving(plan_of(data), binary, tmp_path) as port:
        for name, header in (
            ("bare", b"\0\0\0"),
            ("addresses", b"\x11\0\x0c" + bytes(12)),
            ("unspecified", b"\0\0\x0c" + bytes(12)),
        ):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.settimeout(5)
                with contextlib.suppress(ConnectionError):
                    client.sendall(signature + b"\x20" + header + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    found[name] = client.recv(100)[:12]
    assert set(found.values()) == {b"HTTP/1.1 404"}


def test_a_mirror_that_hangs_costs_clients_nothing(binary, tmp_path) -> None:
    ends = {name: free_port() for name in ("p", "shadow")}
    data = {
        "version": 1,
        "name": "hanging-mirror",
        "profile": "minimal",
        "listeners": {"web": {"port": free_port(), "address": "127.0.0.1"}},
        "pools": {name: {"endpoints": [{"address": f"127.0.0.1:{at}"}]} for name, at in ends.items()},
        "routes": [{"name": "r", "forward": "p", "mirror": [{"pool": "shadow", "percent": 100}]}],
    }
    with (
        stand_in_servers([StandIn("p-0", "p", "127.0.0.1", ends["p"])]),
        socket.create_server(("127.0.0.1", ends["shadow"]), backlog=8),  # accepts nothing
        serving(plan_of(data), binary, tmp_path) as port,
    ):
        begun = time.monotonic()
        assert {ask(port, "GET /")[0] for _ in range(100)} == {200}
        assert time.monotonic() - begun < 10
