"""nginx as a process of a test, with a rendered topology; requests to it, and endpoints that keep what they get."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import lbgen
from lbgen.engines.nginx import ENGINE
from lbgen.plan.resolve import plan
from lbgen.runtime.common.executables import candidates
from tests.support.engine_lists import binaries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lbgen.engines.api import Binary
    from lbgen.plan.model import Plan

PORT = 21201
FOUND = {b.version.rpartition(".")[0]: b for b in candidates(ENGINE)}
BINARIES = binaries("nginx")  # parameters of a test
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\n"


@contextmanager
def serving(binary: Binary, directory: Path, topology: dict[str, Any]) -> Iterator[Plan]:
    """nginx with the topology, whose first listener has the port PORT."""
    version = binary.version.rpartition(".")[0]
    loaded = lbgen.load({"version": 1, "name": "t", "engines": {"nginx": {"version": version}}, **topology})
    made = plan(loaded)
    lbgen.render(made, engine="nginx", accept=("all",)).write(directory)
    with started(made, binary, directory, PORT):
        yield made


@contextmanager
def started(made: Plan, binary: Binary, directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """nginx with the files in the folder, which listens on the port."""
    spec = ENGINE.process(made, binary, directory)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(spec.argv, cwd=directory, stderr=log)
    try:
        for _ in range(200):
            assert process.poll() is None, (directory / "log").read_text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.01)
        yield process
    finally:
        process.send_signal(spec.stop)
        process.wait(10)


@contextmanager
def endpoint(port: int, answer: Callable[[bytes, socket.socket], None]) -> Iterator[None]:
    """`answer` gets the first part of each request, and the connection, which is closed behind it."""
    server = socket.create_server(("127.0.0.1", port), backlog=64)

    def serve(client: socket.socket) -> None:
        with client:
            try:
                if asked := client.recv(65536):
                    answer(asked, client)
            except OSError:
                return

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def parts(path: str, *lines: str, source: str = "127.0.0.1") -> Iterator[tuple[float, bytes]]:
    """The seconds after which each part of an answer comes, and the part."""
    start = time.monotonic()
    with closing(connect(path, *lines, source=source)) as client:
        while part := client.recv(65536):
            yield time.monotonic() - start, part


def ask(path: str = "/", *lines: str, start: str = "", host: str = "a.example", source: str = "127.0.0.1") -> bytes:
    """The answer to a request, empty where the connection is closed; `start` precedes it, as a PROXY header does."""
    answer = b""
    with closing(connect(path, *lines, start=start, host=host, source=source)) as client:
        try:
            while part := client.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
    return answer


def send(data: bytes, seconds: float = 5) -> bytes:
    """What comes back within that time for bytes as they stand."""
    answer = b""
    with closing(socket.create_connection(("127.0.0.1", PORT), seconds)) as client:
        client.sendall(data)
        try:
            while part := client.recv(65536):
                answer += part
        except TimeoutError:
            pass
    return answer


def connect(
    path: str, *lines: str, start: str = "", host: str = "a.example", source: str = "127.0.0.1"
) -> socket.socket:
    """A connection on which the request was sent."""
    closes = () if any(line.startswith("Connection:") for line in lines) else ("Connection: close",)
    head = "\r\n".join((f"GET {path} HTTP/1.1", f"Host: {host}", *closes, *lines))
    client = socket.create_connection(("127.0.0.1", PORT), 5, (source, 0))
    client.settimeout(5)
    client.sendall(f"{start}{head}\r\n\r\n".encode("latin-1"))
    return client


def status(answer: bytes) -> str:
    """The status of an answer; empty for none."""
    return answer.split(b" ", 2)[1].decode() if answer else ""
