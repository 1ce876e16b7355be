"""nginx on this host: its checker, targets of other forms, signals, and names that are resolved while it runs."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from lbgen.engines.nginx import ENGINE
from lbgen.plan.model import HeaderEdits, Match, Plan, Pool, Respond, Route, Timeouts
from tests.support import nginx_process, plans
from tests.support.nginx_process import BINARIES, FOUND, started
from tests.support.plans import by_match, exact, forward, prefix, route

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lbgen.engines.api import Binary

pytestmark = pytest.mark.engines

PORT, ENDPOINT, DNS = 20901, 20902, 20903
TO_POOL = forward("p", times=Timeouts(1_000, 3_000, 3_000))


@pytest.fixture(params=BINARIES)
def binary(request) -> Binary:
    return request.param


def version_of(binary: Binary) -> str:
    return binary.version.rpartition(".")[0]


def plan(*routes: tuple[Match, Route], pools: tuple[Pool, ...] = (), **more) -> Plan:
    return replace(by_match(routes, pools, PORT), **more)


def pool(host: str = "127.0.0.1") -> Pool:
    return plans.pool("p", plans.endpoint(host, ENDPOINT))


@contextmanager
def running(made: Plan, binary: Binary, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    for file in ENGINE.render(made, version_of(binary)):
        (directory / file.name).parent.mkdir(parents=True, exist_ok=True)
        (directory / file.name).write_text(file.text, encoding="utf-8")
    with started(made, binary, directory, PORT) as process:
        yield process


def ask(target: str, *headers: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    lines = [f"{method} {target} HTTP/1.1", "Host: h", *headers, "Connection: close", "", ""]
    with socket.create_connection(("127.0.0.1", PORT), 5) as sock:
        sock.sendall("\r\n".join(lines).encode())
        out = b""
        while part := sock.recv(65536):
            out += part
    head, _, body = out.partition(b"\r\n\r\n")
    first, *rest = head.decode().split("\r\n")
    return int(first.split()[1]), {n.lower(): v.strip(" \t") for n, _, v in (x.partition(":") for x in rest)}, body


def endpoint() -> AbstractContextManager[None]:
    """Answers with the headers it got, as JSON."""

    def answer(asked: bytes, client: socket.socket) -> None:
        lines = asked.decode().split("\r\n\r\n")[0].split("\r\n")[1:]
        body = json.dumps([x.partition(": ")[::2] for x in lines]).encode()
        client.sendall(b"HTTP/1.1 200 OK\r\nServer: own\r\nConnection: close\r\n")
        client.sendall(b"Content-Length: %d\r\n\r\n" % len(body) + body)

    return nginx_process.endpoint(ENDPOINT, answer)


def test_checker_accepts_and_refuses(binary, tmp_path):
    made = plan((exact("/"), route("r", Respond(200, "ok", ()))))
    (file,) = ENGINE.render(made, version_of(binary))
    spec = ENGINE.check(made, binary, tmp_path)

    def problems(text: str) -> tuple[str, ...]:
        (tmp_path / file.name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file.name).write_text(text)
        done = subprocess.run(spec.argv, cwd=tmp_path, capture_output=True, text=True, check=False)
        return spec.judge(done.returncode, done.stdout + done.stderr, {})

    assert problems(file.text) == ()
    assert "bogus" in problems(file.text.replace("server_tokens off;", "bogus on;"))[0]


def test_targets_of_another_form(binary, tmp_path):
    made = plan((prefix("/"), route("r", TO_POOL)), pools=(pool(),))
    with endpoint(), running(made, binary, tmp_path):
        assert ask("http://h/x")[0] == 200
        assert ask("HTTP://H?x")[0] == 400  # it would reach the endpoint without a path
        assert ask("http://other/x")[0] == 200
        assert ask("h:80", method="CONNECT")[0] in (400, 405)
        assert ask("*", method="OPTIONS")[0] == 400


def test_a_path_of_thousands_of_segments_is_served(binary, tmp_path):
    made = plan((prefix("/"), route("r", Respond(200, "here", ()))))
    with running(made, binary, tmp_path):
        assert ask("/a" * 7_500)[::2] == (200, b"here")
        assert ask("/a" * 7_500 + "/..")[0] == 400


def test_reload_takes_changed_files(binary, tmp_path):
    made = plan((exact("/"), route("r", Respond(200, "one", ()))))
    with running(made, binary, tmp_path) as process:
        assert ask("/")[2] == b"one"
        changed = replace(made, routes=(replace(made.routes[0], action=Respond(200, "two", ())),))
        (tmp_path / "nginx.conf").write_text(ENGINE.render(changed, version_of(binary))[0].text)
        os.kill(process.pid, signal.SIGHUP)
        until = time.monotonic() + 5
        while ask("/")[2] != b"two":
            assert time.monotonic() < until
            time.sleep(0.02)


@contextmanager
def dns(addresses: dict[str, str]) -> Iterator[None]:
    """A DNS server: the A record of each known name, no such name for others. `addresses` may change meanwhile."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", DNS))
    sock.settimeout(0.2)
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            try:
                asked, peer = sock.recvfrom(512)
            except TimeoutError:
                continue
            name, at = [], 12
            while length := asked[at]:
                name.append(asked[at + 1 : at + 1 + length].decode())
                at += 1 + length
            question = asked[12 : at + 5]
            (kind,) = struct.unpack("!H", asked[at + 1 : at + 3])
            address = addresses.get(".".join(name))
            known = address is not None and kind == 1
            code = 0x8180 if address is not None else 0x8183
            head = asked[:2] + struct.pack("!HHHHH", code, 1, int(known), 0, 0)
            record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(address) if known else b""
            sock.sendto(head + question + record, peer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        sock.close()


def test_names_are_resolved_while_it_runs(tmp_path):
    if "1.31" not in FOUND:
        pytest.skip("nginx 1.31 is not on this host")
    edits = HeaderEdits(set=(("x-own", "1"),))
    made = plan(
        (exact("/"), route("r", TO_POOL)),
        (exact("/edited"), route("e", TO_POOL, 1, response_headers=edits)),
        pools=(pool("web-2.test"),),
        resolvers=(f"127.0.0.1:{DNS}",),
    )
    addresses: dict[str, str] = {}
    with endpoint(), dns(addresses), running(made, FOUND["1.31"], tmp_path):
        assert ask("/")[0] == 502
        status, headers, _ = ask("/edited")
        assert (status, headers["x-own"]) == (502, "1")
        addresses["web-2.test"] = "127.0.0.1"
        until = time.monotonic() + 10
        while ask("/")[0] != 200:
            assert time.monotonic() < until
            time.sleep(0.2)
        addresses["web-2.test"] = "127.0.0.9"  # nobody listens there
        until = time.monotonic() + 10
        while ask("/")[0] == 200:
            assert time.monotonic() < until
            time.sleep(0.2)
        assert ask("/edited")[0] == 502
