"""Clients at routes that a service guards: who is admitted works as without it, who is denied reaches no endpoint, and
neither does anybody while the service fails, in whatever way."""

from __future__ import annotations

import hashlib
import http.client
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from lbgen.spec.load import load
from tests.clients.auth_service import DRIP_SECONDS, USER, AuthService, auth_service
from tests.clients.endpoints import content
from tests.clients.place import CLEAR, PLAIN, SECURE, Both, Place, name

# What these do is done here once more, through guarded routes: `both` is another one in this file.
from tests.clients.test_curl import (  # noqa: F401
    Version,
    any_version,
    curl,
    test_curl_download,
    test_curl_get,
    test_curl_post,
    test_curl_put,
    version,
)
from tests.clients.test_programs import test_go, test_grpcgo  # noqa: F401
from tests.clients.test_python import (  # noqa: F401
    connected,
    context,
    failed,
    test_httpx,
    test_httpx_leaves_events,
    test_websockets_close,
    test_websockets_messages,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest
    from tests.clients.place import Places

pytestmark = pytest.mark.engines
CONNECT, RESPONSE, MARGIN = 1, 4, 5  # seconds: what a service has, and what an engine may take beyond it
UPLOAD = 10_000_000
REFUSED = tuple(range(400, 600))
# Ways in which a service fails; behind each the status that it begins to say.
FAULTS = {
    **{f"{fault}/{status}": status for fault in ("long-head", "long-body", "drip-body", "cut-body", "hints")
       for status in (200, 401)},
    **dict.fromkeys(("drip-head/200", "cut-head/200", "cut/0"), 401),
}  # fmt: skip
SIZES = (2_000, 6_000, 12_000, 40_000)


def topology(ports: dict[str, int]) -> dict[str, Any]:
    """As http.yaml, guarded, and routes with services that fail."""

    def pool(*names: str, **more: object) -> dict[str, Any]:
        return {"endpoints": [{"address": f"127.0.0.1:{ports[each]}"} for each in names], **more}

    def auth(answer: str, pool: str = "auth", **more: object) -> dict[str, Any]:
        return {"forward": {"pool": pool, "path": f"/auth/{answer}", **more}}

    def route(prefix: str, forward: str = "http", **more: object) -> dict[str, Any]:
        return {"name": prefix.lower(), "match": [{"path": {"prefix": f"/{prefix}"}}], "forward": forward, **more}

    where = {"address": "127.0.0.1", "auth": auth("admit")}
    certificate = {"certificates": [{"cert": "local.crt", "key": "local.key"}]}
    checks = {"path": "/auth/admit", "interval": "500ms", "timeout": "500ms"}
    calls = {"listeners": [CLEAR, SECURE]}
    return {
        "version": 1,
        "name": "guarded",
        "timeouts": {"connect": f"{CONNECT}s", "response": f"{RESPONSE}s"},
        "listeners": {
            PLAIN: {**where, "port": ports[PLAIN]},
            CLEAR: {**where, "port": ports[CLEAR], "http2": True},
            SECURE: {**where, "port": ports[SECURE], "tls": certificate},
        },
        "pools": {
            **{each: pool(each) for each in ("http", "early", "ws", "auth", "dead")},
            "grpc": pool("grpc", protocol="grpc"),
            "active": pool("dead", "auth", health={"active": checks}),
            "passive": pool("dead", "auth", health={"passive": {"failures": 1, "eject_for": "60s"}}),
        },
        "routes": [
            {**route("lbgen.test.Calls", "grpc"), **calls},
            {**route("lbgen.test.Denied", "grpc", auth=auth("deny")), **calls},
            route("early", "early"),
            route("ws", "ws"),
            route("denied", auth=auth("deny")),
            route("lead", auth=auth("lead")),
            route("down", auth=auth("admit", "dead")),
            route("active", auth=auth("admit", "active")),
            route("passive", auth=auth("admit", "passive")),
            route("cookies", auth=auth("admit", response_headers=["x-cookies"])),
            *(route(f"identity-{size}", auth=auth(f"identity/{size}", response_headers=["x-user"])) for size in SIZES),
            *(route(each.replace("/", "-"), auth=auth(each, response_headers=["x-user"])) for each in FAULTS),
            {"name": "rest", "forward": "http"},
        ],
    }


@pytest.fixture(scope="module")
def service() -> Iterator[AuthService]:
    with auth_service() as made:
        yield made


@pytest.fixture
def both(places: Places, subject: EngineUnderTest, service: AuthService) -> Both:
    """The endpoints directly, and through an engine whose routes are guarded."""
    return places.serve(
        subject, f"{name(subject)}, guarded", lambda ports: load(topology({**ports, "auth": service.port}))
    )


def ask(place: Place, path: str, **fields: str) -> tuple[int, bytes, float]:
    """Status (0: the connection ended), body as far as it comes, and the seconds until the status was there."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection(place.host, place.ports[PLAIN], timeout=30)
    try:
        connection.request("GET", path, headers=fields)
        answer = connection.getresponse()
        seconds = time.monotonic() - begun
        try:
            return answer.status, answer.read(), seconds
        except http.client.IncompleteRead as cut:
            return answer.status, cut.partial, seconds
    except (OSError, http.client.HTTPException):
        return 0, b"", time.monotonic() - begun
    finally:
        connection.close()


def account(body: bytes) -> dict[str, list[str]]:
    """The fields that the endpoint says it got."""
    found: dict[str, list[str]] = {}
    for key, value in httpx.Response(200, content=body).json()["fields"]:
        found.setdefault(key.lower(), []).append(value)
    return found


def assert_unseen(both: Both, path: str) -> None:
    """No endpoint has got a request for `path`."""
    assert path not in both.stats()


def test_every_request_is_asked_about(both: Both, service: AuthService) -> None:
    path = f"/http/echo/{name_of(both)}"
    assert ask(both.through, path)[0] == 200
    assert [each.method for each in service.about(path)] == ["GET"]


def test_many_are_asked_about_at_once(both: Both) -> None:
    def several(number: int) -> set[int]:
        return {ask(both.through, f"/http/echo/{number}/{turn}")[0] for turn in range(10)}

    with ThreadPoolExecutor(32) as clients:
        assert set().union(*clients.map(several, range(32))) == {200}


def name_of(both: Both) -> str:
    return both.through.label.replace(" ", "-").replace(",", "")


# Denied


@pytest.mark.parametrize(
    "how", [("-H", "Expect:"), (), ("-H", "Transfer-Encoding: chunked")], ids=["at once", "expect", "chunked"]
)
def test_a_denied_upload(both: Both, version: Version, how: tuple[str, ...]) -> None:  # noqa: F811
    path = f"/denied/echo/{name_of(both)}"
    got = curl(both.through, version, path, "-T", "FILE", *how, data=content(UPLOAD))
    # Over HTTP/2 curl 7.88 may lose an early answer in the reset that follows. nginx counts a body without a length.
    early = {401} if version[1] == "--http1.1" else {401, 0}
    assert got["status"] in (early | {413} if "chunked" in str(how) and "nginx" in path else early)
    assert_unseen(both, path)
    assert ask(both.through, "/http/echo/next")[0] == 200


def test_a_denied_upload_is_not_awaited(both: Both) -> None:
    """A client that nobody knows can make no engine keep what it sends."""
    path = f"/denied/large/{name_of(both)}"
    head = f"PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {UPLOAD}\r\n\r\n"
    with socket.create_connection((both.through.host, both.through.ports[PLAIN]), timeout=5) as client:
        client.sendall(head.encode() + bytes(1_000))
        assert client.recv(65_536).startswith(b"HTTP/1.1 401")
    assert_unseen(both, path)


def test_a_denied_client_that_waits_for_100(both: Both) -> None:
    path = f"/denied/expect/{name_of(both)}"
    head = f"PUT {path} HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection((both.through.host, both.through.ports[PLAIN]), timeout=10) as client:
        client.sendall(head.encode())
        got = client.recv(65_536)
        if got.startswith(b"HTTP/1.1 100"):
            client.sendall(b"hello")
            got = got.partition(b"\r\n\r\n")[2] or client.recv(65_536)
    assert got.startswith(b"HTTP/1.1 401")
    assert_unseen(both, path)


@pytest.mark.parametrize("listener", [PLAIN, SECURE])
def test_a_denied_websocket(both: Both, listener: str) -> None:
    path = f"/denied/ws/{name_of(both)}"
    assert failed(both.through, listener, path) == 401
    assert_unseen(both, path)


@pytest.mark.parametrize("listener", [PLAIN, CLEAR, SECURE])
def test_a_denied_stream(both: Both, listener: str) -> None:
    both.through.has(listener)
    known = {"http1": False, "http2": True} if listener == CLEAR else {"http2": listener == SECURE}
    path = f"/denied/forever/{name_of(both)}"
    with httpx.Client(verify=context(both.through), trust_env=False, **known) as client:
        got = client.get(both.through.url(path, listener))
    assert (got.status_code, got.text) == (401, "who are you?\n")
    assert got.headers["www-authenticate"] == 'Bearer realm="x"'
    assert_unseen(both, path)


@pytest.mark.parametrize("listener", [CLEAR, SECURE])
def test_a_denied_call(both: Both, listener: str) -> None:
    """gRPC's clients read a 401 as UNAUTHENTICATED; the server itself would say UNIMPLEMENTED."""
    grpc = pytest.importorskip("grpc", reason="no grpcio here")
    from tests.clients.test_grpcio import channel

    with channel(both.through, listener) as at, pytest.raises(grpc.RpcError) as raised:
        at.unary_unary("/lbgen.test.Denied/Unary")(b"hello", timeout=10)
    assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_redirect_with_cookies(both: Both) -> None:
    path = f"/lead/{name_of(both)}"
    connection = http.client.HTTPConnection(both.through.host, both.through.ports[PLAIN], timeout=10)
    connection.request("POST", path, body=b"x")
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("location")) == (302, "https://login.example/")
    assert answer.headers.get_all("set-cookie") == ["a=1", "b=2"]
    connection.close()
    assert_unseen(both, path)


# The service fails


@pytest.mark.parametrize("fault", FAULTS)
def test_a_service_that_fails_opens_nothing(both: Both, fault: str) -> None:
    """A 2xx whose head is whole may admit, and then with the identity; nothing else does, and no client waits on."""
    path = f"/{fault.replace('/', '-')}/echo/{name_of(both)}"
    status, body, seconds = ask(both.through, path, **{"X-User": "root"})
    if FAULTS[fault] == 200 and status == 200 and path in both.stats():
        assert account(body).get("x-user") == [USER]
    else:
        assert status in (0, *REFUSED)
        assert_unseen(both, path)
    # HAProxy waits for the whole body, in which no byte is late.
    assert seconds < (DRIP_SECONDS if fault.startswith("drip-body") else CONNECT + RESPONSE) + MARGIN
    assert ask(both.through, "/http/echo/next")[0] == 200


def test_a_service_that_is_down(both: Both) -> None:
    path = f"/down/echo/{name_of(both)}"
    assert ask(both.through, path)[0] in (500, 502, 503, 504)
    assert_unseen(both, path)


@pytest.mark.parametrize("checks", ["active", "passive"])
def test_a_service_of_two_endpoints_of_which_one_is_down(both: Both, checks: str) -> None:
    """Once the pool's checks have found out, nobody is denied."""
    path = f"/{checks}/echo"
    both.until(lambda: all(ask(both.through, path)[0] == 200 for _ in range(10)), "some are denied")
    assert [ask(both.through, path)[0] for _ in range(40)] == [200] * 40


# What the service and the endpoint get


@pytest.mark.parametrize("cookies", [0, 8_000])
@pytest.mark.parametrize("size", SIZES)
def test_a_long_identity_is_whole_or_denied(both: Both, size: int, cookies: int) -> None:
    path = f"/identity-{size}/echo/{cookies}/{name_of(both)}"
    status, body, _ = ask(both.through, path, Cookie="c" * cookies)
    if size <= SIZES[0] or path in both.stats():
        assert status == 200
        assert account(body).get("x-user") == ["u" * size]
    else:
        assert status in REFUSED


@pytest.mark.parametrize("listener", [CLEAR, SECURE])
def test_cookies_of_http2_are_one_line(both: Both, service: AuthService, listener: str) -> None:
    """Browsers send each cookie in a field of its own there (RFC 9113, 8.2.3)."""
    both.through.has(listener)
    path = f"/http/echo/crumbs/{listener}/{name_of(both)}"
    known = {"http1": listener != CLEAR, "http2": True}
    with httpx.Client(verify=context(both.through), trust_env=False, **known) as client:
        answer = client.get(both.through.url(path, listener), headers=[("Cookie", "a=1"), ("Cookie", "b=2")])
    assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
    assert [each.lines("cookie") for each in service.about(path)] == [["a=1; b=2"]]


@pytest.mark.parametrize("size", [3_000, 7_000])
def test_long_cookies_reach_the_service(both: Both, size: int) -> None:
    """Sessions in cookies, such as those of oauth2-proxy, are up to 4 KiB each."""
    cookie = f"session={'c' * size}"
    status, body, _ = ask(both.through, "/cookies/echo", Cookie=cookie)
    assert status == 200
    assert account(body).get("x-cookies") == [hashlib.sha256(cookie.encode()).hexdigest()]
