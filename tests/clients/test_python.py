"""The clients of Python: requests, httpx over HTTP/1.1 and HTTP/2, aiohttp, websockets."""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.clients.endpoints import content
from tests.clients.place import CLEAR, PLAIN, SECURE, Both, Place
from tests.support import websocket

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.engines
SIZE = 2_000_000


def pieces() -> Iterator[bytes]:
    """A body whose length the client does not know."""
    for first in range(0, SIZE, 100_000):
        yield content(SIZE)[first : first + 100_000]


def answer(status: int, fields: Any, body: bytes) -> dict[str, Any]:
    return {"status": status, "answer": list(fields), "body": hashlib.sha256(body).hexdigest()}


def context(place: Place) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=place.folder / "ca.crt")


class Requests:
    """requests."""

    def __init__(self, place: Place, listener: str) -> None:
        import requests

        self.session = requests.Session()
        self.session.trust_env = False
        self.session.verify = str(place.folder / "ca.crt")

    def ask(self, method: str, url: str, **given: Any) -> Any:
        got = self.session.request(method, url, timeout=20, **given)
        return got.status_code, got.raw.headers.items(), got.content

    def close(self) -> None:
        self.session.close()

    def lines(self, url: str) -> list[str]:
        with self.session.get(url, stream=True, timeout=20) as got:
            return [line.decode() for line in got.iter_lines()]


class Httpx:
    """httpx; over HTTP/2 where the listener has it."""

    def __init__(self, place: Place, listener: str) -> None:
        two = listener != PLAIN and not place.direct
        known = {"http1": False, "http2": True} if two and listener == CLEAR else {"http2": two}
        self.client = httpx.Client(verify=context(place), trust_env=False, timeout=20, follow_redirects=True, **known)
        self.version = "HTTP/2" if two else "HTTP/1.1"

    def ask(self, method: str, url: str, **given: Any) -> Any:
        if "data" in given:
            given["content"] = given.pop("data")
        got = self.client.request(method, url, **given)
        assert got.http_version == self.version
        return got.status_code, got.headers.multi_items(), got.content

    def close(self) -> None:
        self.client.close()

    def lines(self, url: str) -> list[str]:
        with self.client.stream("GET", url) as got:
            return list(got.iter_lines())


class Aiohttp:
    """aiohttp."""

    def __init__(self, place: Place, listener: str) -> None:
        aiohttp = pytest.importorskip("aiohttp", reason="no aiohttp here")
        self.loop = asyncio.new_event_loop()

        async def begun() -> Any:
            jar = aiohttp.CookieJar(unsafe=True)  # of addresses, too
            return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context(place)), cookie_jar=jar)

        self.session = self.loop.run_until_complete(begun())

    def ask(self, method: str, url: str, **given: Any) -> Any:
        if not isinstance(given.get("data", b""), bytes):
            given["data"] = self.pieces()

        async def asked() -> Any:
            async with self.session.request(method, url, **given) as got:
                return got.status, list(got.headers.items()), await got.read()

        return self.loop.run_until_complete(asyncio.wait_for(asked(), 20))

    async def pieces(self) -> Any:
        for each in pieces():
            yield each

    def close(self) -> None:
        self.loop.run_until_complete(self.session.close())
        self.loop.close()

    def lines(self, url: str) -> list[str]:
        async def asked() -> list[str]:
            async with self.session.get(url) as got:
                return [line.decode().rstrip("\n") async for line in got.content]

        return self.loop.run_until_complete(asyncio.wait_for(asked(), 20))


def exchange(place: Place, kind: Any, listener: str) -> dict[str, Any]:
    """All of a client's work in one session, each part by its name."""
    place.has(listener)
    client, url = kind(place, listener), lambda path: place.url(path, listener)
    try:
        done: dict[str, Any] = {}
        for name, asked in {
            "get": ("GET", "/http/echo/a%20b/~me?q=a%20b&x=%2F&e=", {"headers": {"X-A": "1"}}),
            "post": ("POST", "/http/echo", {"data": content(SIZE)}),
            "put in pieces": ("PUT", "/http/echo", {"data": pieces()}),
            "delete": ("DELETE", "/http/echo", {}),
            "compressed": ("GET", "/http/bytes/100000", {}),
            "head": ("HEAD", "/http/bytes/100000", {}),
            "redirect": ("POST", "/http/redirect", {"data": b"again"}),
            "set cookies": ("GET", "/http/cookies", {}),
            "cookies": ("GET", "/http/cookies", {}),
            "missing": ("GET", "/http/nothing", {}),
            "refused": ("POST", "/early/refuse", {"data": content(1000)}),
            "after it": ("GET", "/early/echo", {}),
        }.items():
            try:
                status, fields, body = client.ask(asked[0], url(asked[1]), **asked[2])
            except Exception as error:  # noqa: BLE001 - the part failed, the others go on
                done[name] = {"error": f"{type(error).__name__}: {error}"}
                continue
            done[name] = answer(status, fields, body)
            if b'"sha"' in body:
                done[name]["body"] = httpx.Response(200, content=body).json()
        done["events"] = client.lines(url("/sse/events/10"))
        return done
    finally:
        client.close()


WORK = ("get", "post", "put in pieces", "delete", "compressed", "head", "redirect", "set cookies", "cookies")
MORE = ("missing", "refused", "after it", "events")


@pytest.fixture(params=[*WORK, *MORE])
def work(request: pytest.FixtureRequest) -> str:
    return request.param


def check(both: Both, kind: Any, listener: str, work: str) -> None:
    both.same_part(work, exchange, kind, listener)


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
def test_requests(both: Both, listener: str, work: str) -> None:
    check(both, Requests, listener, work)


@pytest.mark.parametrize("listener", [PLAIN, CLEAR, SECURE])
def test_httpx(both: Both, listener: str, work: str) -> None:
    check(both, Httpx, listener, work)


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
def test_aiohttp(both: Both, listener: str, work: str) -> None:
    check(both, Aiohttp, listener, work)


def connected(place: Place, listener: str, path: str = "/ws/echo", **given: Any) -> Any:
    if place.is_tls(listener):
        given["ssl"] = context(place)
    return websocket.connected(place.url(path, listener, "ws"), max_size=None, proxy=None, **given)


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
@pytest.mark.parametrize("size", [0, 125, 65_536, 2_000_000])
def test_websockets_messages(both: Both, listener: str, size: int) -> None:
    with connected(both.through, listener) as client:
        for message in ("x" * size, os.urandom(size)):
            client.send(message)
            assert client.recv() == message
        client.ping()


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
def test_websockets_close(both: Both, listener: str) -> None:
    from websockets.exceptions import ConnectionClosed

    with connected(both.through, listener, "/ws/close") as client, pytest.raises(ConnectionClosed) as closed:
        client.recv()
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (4321, "as asked")


def test_websockets_client_vanishes(both: Both) -> None:
    """The endpoint hears of it, and another one is served."""
    both.wait_for("sockets", 0)
    with connected(both.through, PLAIN) as gone, connected(both.through, PLAIN) as stays:
        for each in (gone, stays):
            each.send("here")
            each.recv()
        both.wait_for("sockets", 2)
        gone.vanish()
        both.wait_for("sockets", 1)
        stays.send("still here")
        assert stays.recv() == "still here"


def failed(place: Place, listener: str, path: str) -> Any:
    """The status of a handshake that is refused, or how an open connection ends."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus

    try:
        with connected(place, listener, path) as client:
            client.send("x")
            assert client.recv() == "x"
            client.recv()
    except InvalidStatus as refused:
        return refused.response.status_code
    except ConnectionClosed as closed:
        return closed.rcvd and closed.rcvd.code


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
@pytest.mark.parametrize(("path", "wanted"), [("/ws/refuse", 403), ("/ws/reset", None)])
def test_websockets_endpoint_fails(both: Both, listener: str, path: str, wanted: int | None) -> None:
    """It refuses the handshake, or breaks off without a word: as without a proxy."""
    assert both.same(failed, listener, path) == wanted


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
@pytest.mark.parametrize("path", ["/dead/x", "/broken/x"])
def test_websockets_endpoint_down(both: Both, listener: str, path: str) -> None:
    assert failed(both.through, listener, path) in (502, 503, 504)


@pytest.mark.parametrize("listener", [PLAIN, CLEAR, SECURE])
def test_httpx_leaves_events(both: Both, listener: str) -> None:
    """The endpoint hears of it."""
    both.through.has(listener)
    client, url = Httpx(both.through, listener), both.through.url("/sse/forever", listener)
    with client.client.stream("GET", url) as got:
        lines = got.iter_lines()
        assert next(lines) == "data: still here"
        both.wait_for("/sse/forever", 1)
    client.close()  # over HTTP/2 it leaves a stream only with its connection
    both.wait_for("/sse/forever", 0)
