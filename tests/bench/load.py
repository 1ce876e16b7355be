"""The endpoint that answers, wrk that asks, and idle connections: all on the core that the proxy is not on."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from contextlib import ExitStack, contextmanager
from signal import SIGTERM
from typing import TYPE_CHECKING

from lbgen.bench.load import LoadShape, find_wrk, read_wrk, run_generator, wrk_command
from lbgen.runtime.common.ports import accepts
from lbgen.runtime.local.spawn import User, spawn, stop
from tests.bench.proxies import ENDPOINT_PORT, LOAD_CORE, BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.engines.api import Binary
    from tests.bench.proxies import Running

CONNECTIONS = 50
BODY_BYTES = 5120
START_SECONDS = 60.0
_GRACE_SECONDS = 20.0
_ENDPOINT = """\
daemon off;
worker_processes 1;
pid endpoint.pid;
error_log stderr warn;
worker_rlimit_nofile 20000;
events { worker_connections 16384; }
http {
    access_log off;
    default_type application/json;
    keepalive_requests 100000000;
    keepalive_timeout 1h;
    server {
        listen %d backlog=4096;
        set $half '%s';
        return 200 '{"items":["$half$half"]}';
    }
}
"""


@contextmanager
def endpoint(binary: Binary, folder: Path) -> Iterator[None]:
    """An nginx that answers every request from memory and keeps connections; for the block."""
    folder.mkdir()
    half = "x" * ((BODY_BYTES - len('{"items":[""]}')) // 2)  # nginx reads no word of more than 4 KiB
    (folder / "nginx.conf").write_text(_ENDPOINT % (ENDPOINT_PORT, half), encoding="utf-8")
    argv = ("taskset", "-c", str(LOAD_CORE), str(binary.path), "-p", f"{folder}/", "-e", "stderr", "-c", "nginx.conf")
    with (folder / "output.log").open("wb") as output:
        process = spawn(argv, user=User(), directory=folder, output=output)
    try:
        end = time.monotonic() + START_SECONDS
        while _get(ENDPOINT_PORT) != 200:
            if process.poll() is not None or time.monotonic() > end:
                raise BenchError(f"the endpoint did not start: {(folder / 'output.log').read_text(encoding='utf-8')}")
            time.sleep(0.02)
        yield
    finally:
        stop(process, SIGTERM, 2.0)


def wait_until_serving(proxy: Running, host: str = "localhost", path: str = "/data.json") -> None:
    """Return once it answers 200; BenchError with its output when it does not."""
    end = time.monotonic() + START_SECONDS
    while (status := _get(proxy.proxy.port, host, path, tls=proxy.proxy.tls)) != 200:
        if proxy.process.poll() is not None or time.monotonic() > end:
            raise BenchError(f"{proxy.proxy.name} does not serve (status {status}): {proxy.log()}")
        time.sleep(0.05)


def wait_until_bound(proxy: Running) -> None:
    """Return once its port accepts connections."""
    end = time.monotonic() + START_SECONDS
    while not accepts("127.0.0.1", proxy.proxy.port):
        if proxy.process.poll() is not None or time.monotonic() > end:
            raise BenchError(f"{proxy.proxy.name} does not start: {proxy.log()}")
        time.sleep(0.05)


def _get(port: int, host: str = "localhost", path: str = "/data.json", *, tls: bool = False) -> int:
    """The status of one GET; 0 when there was no answer."""
    connection = (
        http.client.HTTPSConnection("localhost", port, timeout=5, context=_trusting())
        if tls
        else http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    )
    try:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def ask(
    proxy: Running,
    seconds: int,
    host: str = "localhost",
    path: str = "/data.json",
    headers: tuple[tuple[str, str], ...] = (),
) -> float:
    """CPU microseconds of the proxy per request in one round of wrk with 50 keep-alive connections.

    BenchError when an answer was no 2xx or 3xx, or none came; EngineError LB430 when wrk is missing or failed."""
    shape = LoadShape(CONNECTIONS)
    command = wrk_command(find_wrk(), proxy.proxy.url(path), (("Host", host), *headers), shape, seconds)
    before = proxy.cpu()
    found = read_wrk(run_generator(["taskset", "-c", str(LOAD_CORE), *command], seconds, lambda: None))
    used = proxy.cpu() - before
    if found.errors or found.refused:
        raise BenchError(f"requests failed: {found.errors} without an answer, {found.refused} not 2xx or 3xx")
    return used * 1e6 / found.requests


def hold_idle(proxy: Running, connections: int) -> float:
    """MiB of the proxy while that many connections are idle after one answer each; BenchError when it closes one."""
    request = b"GET /data.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        held = []
        for number in range(connections):
            try:
                client = stack.enter_context(socket.create_connection(("127.0.0.1", proxy.proxy.port), 5))
                client.sendall(request)
                _read_answer(client)
            except OSError as error:
                raise BenchError(f"connection {number + 1} of {connections} was not served: {error}") from None
            held.append(client)
        time.sleep(0.5)
        memory = proxy.memory()
        closed = sum(_is_closed(client) for client in held)
        if closed:
            raise BenchError(f"{closed} of {connections} idle connections were closed")
        return memory


def _read_answer(client: socket.socket) -> None:
    got = b""
    while len(got.partition(b"\r\n\r\n")[2]) < BODY_BYTES:
        chunk = client.recv(65536)
        if not chunk:
            raise OSError("closed without an answer")
        got += chunk


def _is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
