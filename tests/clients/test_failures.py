"""What goes wrong every day: endpoints that answer early, are down or break off; clients that leave. Each time a client
hears of it in its usual way, and the next one is served."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from typing import Any

import h2.connection
import h2.events
import httpx
import pytest

from tests.clients.endpoints import content
from tests.clients.habits import unexpected
from tests.clients.place import CLEAR, PLAIN, SECURE, Both, Place, program, run
from tests.clients.test_curl import MORE, VERSIONS, Version, curl

pytestmark = pytest.mark.engines
ROUNDS = 5
FAILED = (502, 503, 504)  # which of them is the engine's habit
ALL = {**VERSIONS, "h2c": MORE["h2c"]}


@pytest.fixture(params=ALL.values(), ids=ALL)
def version(request: pytest.FixtureRequest) -> Version:
    return request.param


def next_is_served(place: Place, path: str = "/http/echo/next", times: int = 1) -> None:
    """New clients get the answers to their own requests."""
    for number in range(times):
        own = f"{path}?number={number}"
        with urllib.request.urlopen(place.url(own), timeout=5) as answer:
            account = httpx.Response(200, content=answer.read()).json()
        assert (account["target"], account["size"]) == (own, 0)


def assert_failed(both: Both, got: dict[str, Any]) -> None:
    """The client is told that the endpoint failed."""
    found = unexpected((f"status: {got['status']}, exit: {got['exit']}",), both.through.label)
    assert got["status"] in FAILED or not found, found


def refused_early(place: Place, version: Version, path: str) -> list[int]:
    """The statuses of uploads that the endpoint refuses at once, and of requests of other clients on the same pool."""
    found = []
    for _ in range(ROUNDS):
        got = curl(place, version, path, "-T", "FILE", "-H", "Expect:", data=content(5_000_000))
        found.append(got["status"])
        next_is_served(place, "/early/echo", 2)
    return found


@pytest.mark.parametrize("path", ["/early/refuse", "/early/refuse/close"], ids=["kept", "closed"])
def test_curl_refused_while_uploading(both: Both, version: Version, path: str) -> None:
    wanted, got = both.direct.once(refused_early, version, path), refused_early(both.through, version, path)
    assert wanted == [401] * ROUNDS
    # Over HTTP/2 curl 7.88 then ends its stream short of the length, and may lose the answer in the reset that follows.
    assert set(got) <= ({401} if version[1] == "--http1.1" else {401, 0})


@pytest.mark.parametrize("listener", [CLEAR, SECURE])
@pytest.mark.parametrize("sent", [0, 10_000])
def test_h2_refused_upload_cut_short(both: Both, listener: str, sent: int) -> None:
    """The client ends its stream short of the length that it named, once it has read 401: what follows on the
    endpoint's connection is never taken for the rest of the body."""
    both.through.has(listener)
    for _ in range(15):
        assert _cut_short(both.through, listener, sent) in (b"401", b"reset", b"400")
        next_is_served(both.through, "/early/echo", 2)


def _cut_short(place: Place, listener: str, sent: int) -> bytes:
    """The status of a PUT of 5,000,000 bytes, of which `sent` are sent."""
    host, port = place.address("/early", listener)
    with ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), timeout=5))
        if place.is_tls(listener):
            context = ssl.create_default_context(cafile=place.folder / "ca.crt")
            context.set_alpn_protocols(["h2"])
            connection = stack.enter_context(context.wrap_socket(connection, server_hostname=host))
        http2 = h2.connection.H2Connection()
        http2.initiate_connection()
        fields = ((":method", "PUT"), (":scheme", "http"), (":path", "/early/refuse"), (":authority", f"{host}:{port}"))
        http2.send_headers(1, (*fields, ("content-length", "5000000")))
        http2.send_data(1, b"x" * sent)
        connection.sendall(http2.data_to_send())
        status = b""
        while not status:
            received = connection.recv(65_536)
            if not received:
                return b"reset"
            for event in http2.receive_data(received):
                if isinstance(event, h2.events.ResponseReceived):
                    status = dict(event.headers)[b":status"]
                elif isinstance(event, h2.events.StreamReset):
                    return b"reset"
            connection.sendall(http2.data_to_send())
        # An empty DATA frame with END_STREAM, by hand: the library would not send it.
        connection.sendall(b"\0\0\0\0\x01\0\0\0\x01")
        time.sleep(0.05)
        return status


def test_curl_dead_endpoint(both: Both, version: Version) -> None:
    for method in ("GET", "POST"):
        assert_failed(both, curl(both.through, version, "/dead/x", "-X", method))
    next_is_served(both.through)


def cut(place: Place, version: Version, path: str) -> tuple[bool, bool]:
    """Whether curl takes an answer that is cut for a whole one, and how much of it came."""
    got = curl(place, version, path)
    return got["exit"] == 0, got["size"] <= 1000


@pytest.mark.parametrize("path", ["/http/reset", "/sse/reset/events"], ids=["length", "events"])
def test_curl_reset_in_body(both: Both, version: Version, path: str) -> None:
    assert both.same(cut, version, path) == (False, True)
    next_is_served(both.through)


@pytest.mark.parametrize("path", ["/http/reset/head", "/broken/x"], ids=["read", "at once"])
def test_curl_reset_instead_of_answer(both: Both, version: Version, path: str) -> None:
    assert_failed(both, curl(both.through, version, path))
    next_is_served(both.through)


def test_curl_reset_in_upload(both: Both, version: Version) -> None:
    """The client is told of the failure, or cut off."""
    options = ("-T", "FILE", "-H", "Expect:")
    assert curl(both.direct, version, "/http/reset/upload", *options, data=content(5_000_000))["exit"] != 0
    got = curl(both.through, version, "/http/reset/upload", *options, data=content(5_000_000))
    assert got["status"] in FAILED or got["exit"] != 0
    next_is_served(both.through)


@pytest.mark.parametrize("pool", ["active", "passive"])
def test_curl_8_at_once_with_a_closed_endpoint(both: Both, pool: str) -> None:
    """A retry goes to the endpoint that works: none of 800 requests fails, with health checks of either kind."""
    url = both.through.url(f"/{pool}/echo/[1-800]")
    flags = ("-s", "-Z", "--parallel-max", "8", "-o", "/dev/null", "-w", "%{http_code} ")
    statuses = Counter(run(program("curl"), *flags, url).stdout.split())
    failed = 800 - statuses["200"]
    assert not failed or not unexpected((f"{failed} of 800 fail",), both.through.label), statuses


def test_curl_leaves_in_download(both: Both, version: Version) -> None:
    """The endpoint's side is closed as well, soon."""
    got = curl(both.through, version, "/http/forever", "-m", "0.5")
    assert (got["exit"], got["status"]) == (28, 200)
    both.wait_for("/http/forever", 0)
    next_is_served(both.through)


def test_curl_leaves_in_upload(both: Both, version: Version) -> None:
    """Killed while it sends a body slowly."""
    listener, flag = version
    both.through.has(listener)
    url, ca = both.through.url("/http/echo/killed", listener), both.through.folder / "ca.crt"
    argv = [program("curl"), "-s", flag, "--cacert", str(ca), "-T", "-", url]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        process.stdin.write(b"x" * 100_000)
        process.stdin.flush()
        time.sleep(0.3)
        process.kill()
    both.wait_for("/http/echo/killed", 0)
    next_is_served(both.through)


def test_curl_status_of_endpoint(both: Both, version: Version) -> None:
    assert both.same(curl, version, "/http/nothing")["status"] == 404


def test_requests_kept_connection(both: Both) -> None:
    """One connection for twenty requests, some of which end in errors of the endpoint's own."""
    connection = http.client.HTTPConnection(both.through.host, both.through.ports[PLAIN], timeout=10)
    found = []
    connection.connect()
    first = connection.sock
    for number in range(20):
        connection.request("POST", ("/http/echo", "/http/nothing", "/http/redirect")[number % 3], body=b"x" * 1000)
        answer = connection.getresponse()
        answer.read()
        found.append(answer.status)
        assert connection.sock is first, f"closed after {number + 1}"
    connection.close()
    assert found == ([200, 404, 307] * 7)[:20]


def test_httpx_many_at_once(both: Both) -> None:
    """Eighty requests on one connection of HTTP/2, in flight together with some that are cancelled."""
    import asyncio

    context = ssl.create_default_context(cafile=both.through.folder / "ca.crt")

    async def asked() -> list[Any]:
        async with httpx.AsyncClient(http2=True, verify=context, trust_env=False, timeout=20) as client:
            leaving = [asyncio.create_task(client.get(both.through.url("/http/forever", SECURE))) for _ in range(10)]
            await asyncio.sleep(0.2)
            urls = [both.through.url(f"/http/echo/{number}", SECURE) for number in range(80)]
            staying = [asyncio.create_task(client.get(url)) for url in urls]
            for task in leaving:
                task.cancel()
            return [(each.status_code, each.json()["target"]) for each in await asyncio.gather(*staying)]

    assert asyncio.run(asked()) == [(200, f"/http/echo/{number}") for number in range(80)]
    both.wait_for("/http/forever", 0)
