"""nginx on this host: no spelling of a path, an address or a field gets a client past a rule."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from lbgen.engines.nginx.support import VERSIONS
from tests.support import nginx_process
from tests.support.nginx_process import BINARIES, OK, PORT, endpoint, status

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from lbgen.engines.api import Binary
    from lbgen.plan.model import Plan

pytestmark = pytest.mark.engines

ADMIN, PUBLIC = 21202, 21203


@pytest.fixture(params=BINARIES)
def binary(request) -> Binary:
    return request.param


@pytest.fixture
def seen() -> Iterator[list[bytes]]:
    """The requests that reach endpoints: a line `admin` or `public`, then what was sent."""
    requests: list[bytes] = []

    def named(name: bytes) -> Any:
        def answer(asked: bytes, client: socket.socket) -> None:
            requests.append(name + b"\n" + asked)
            client.sendall(OK + name.ljust(7))

        return answer

    with ExitStack() as stack:
        stack.enter_context(endpoint(ADMIN, named(b"admin")))
        stack.enter_context(endpoint(PUBLIC, named(b"public")))
        yield requests


def serving(
    binary: Binary, directory: Path, routes: list[dict[str, Any]], **listener: Any
) -> AbstractContextManager[Plan]:
    """nginx with a listener and these routes to the pools `admin` and `public`."""
    pools = {
        name: {"endpoints": [{"address": f"127.0.0.1:{port}"}]} for name, port in (("admin", ADMIN), ("public", PUBLIC))
    }
    topology = {"listeners": {"web": {"port": PORT, **listener}}, "pools": pools, "routes": routes}
    return nginx_process.serving(binary, directory, topology)


def ask(path: str = "/", *lines: str, **more: str) -> str:
    """The status of a request, or empty where the connection is closed."""
    return status(nginx_process.ask(path, *lines, **more))


def proxied(source: str) -> str:
    family, target = ("TCP6", "::1") if ":" in source else ("TCP4", "127.0.0.1")
    return f"PROXY {family} {source} {target} 40000 80\r\n"


TO_PUBLIC = [{"name": "public", "match": [{"path": {"prefix": "/public"}}], "forward": "public"}]
GUARDED = [
    {
        "name": "admin",
        "match": [{"path": {"prefix": "/admin"}}],
        "forward": "admin",
        "access": {"allow": ["10.0.0.0/8"]},
    },
    *TO_PUBLIC,
    {"name": "shop", "match": [{"path": {"prefix": "/products"}}], "forward": "public", "rewrite": {"prefix": "/p"}},
]
AMBIGUOUS = (
    "/admin/..%2fpublic/x",
    "/public/../admin/x",
    "/public/%2e%2e/admin/x",
    "/public/..%2fadmin/x",
    "/public/x/..",
    "/public/.",
    "/products/../admin/..%2fproducts/x",
    "//public/x",
    "/public//x",
    "/%70ublic/x",
    "/public/%5cx",
    "/public/\\x",
    "/public/x%00",
    "/public/x%7f",
    "/public/x%2",
    "/public/x#/../../admin",
    "/public/x?a#b",
    "/public/\xe4",
)
UNAMBIGUOUS = ("/public", "/public/", "/public/.x", "/public/..x/a.b", "/public/%20%C3%A4", '/public/a|b{c}^`"<>')


def test_no_spelling_of_a_path_passes_a_rule(binary, seen, tmp_path):
    with serving(binary, tmp_path, GUARDED):
        for path in AMBIGUOUS:
            assert ask(path)[:1] == "4", path
        assert seen == []
        for path in UNAMBIGUOUS:
            assert ask(path) == "200", path
            assert seen[-1].split(b" ")[1] == path.encode(), path
        assert ask('/public?a=|b{c}^`\\"//../%2f') == "200"
        assert ask("/admin/x") == "403"


def test_the_host_of_an_absolute_target_is_what_endpoints_get(binary, seen, tmp_path):
    only = [{"name": "a", "hosts": ["a.example"], "forward": "public"}]
    with serving(binary, tmp_path, only):
        assert ask("http://b.example/x", host="a.example") == "404"
        assert ask("http://a.example/x", host="b.example") == "200"
        assert b"\r\nhost: a.example\r\n" in seen[-1].lower()


ODD_HOSTS = ("a.example:x", "a.example:80:80", "u@a.example", "b.example#a.example", "[::1", "a.example,b.example")


def test_no_request_is_forwarded_without_one_host(binary, seen, tmp_path):
    with serving(binary, tmp_path, [{"name": "a", "forward": "public"}]):
        for host in ODD_HOSTS:
            assert ask("/", host=host) == "400", host
        for start in (b"GET / HTTP/1.0\r\n\r\n", b"GET /\r\n\r\n", b"GET /\r\nHost: a.example\r\n\r\n"):
            assert b"400 " in nginx_process.send(start), start
        assert seen == []
        for host in ("a.example", "A.example:8080", "a_b.example.", "[::1]:80", "127.0.0.1:"):
            assert ask("/", host=host) == "200", host


def test_a_mapped_address_is_the_ipv4_address(binary, seen, tmp_path):
    """In PROXY headers: an access list and the key of a rate limit."""
    limited = [
        {"name": "a", "forward": "public", "rate_limit": {"rate": "1/m", "key": "client_ip"}},
        {"name": "b", "match": [{"path": {"prefix": "/b"}}], "forward": "public", "access": {"allow": ["192.0.2.7"]}},
    ]
    with serving(binary, tmp_path, limited, proxy_protocol="accept", access={"deny": ["::ffff:198.51.100.0/120"]}):
        assert ask(start=proxied("::ffff:198.51.100.7")) == ask(start=proxied("198.51.100.7")) == "403"
        assert ask("/b", start=proxied("::ffff:192.0.2.7")) == ask("/b", start=proxied("192.0.2.7")) == "200"
        assert ask("/b", start=proxied("::ffff:192.0.2.8")) == "403"
        assert ask(start=proxied("::ffff:192.0.2.9")) == "200"
        assert ask(start=proxied("192.0.2.9")) == ask(start=proxied("::FFFF:c000:0209")) == "429"
        assert ask(start=proxied("2001:db8::9")) == "200"


def test_a_mapped_address_behind_trusted_proxies(binary, seen, tmp_path):
    limited = [
        {
            "name": "a",
            "forward": "public",
            "rate_limit": {"rate": "1/m", "key": "client_ip"},
            "access": {"deny": ["198.51.100.0/24"]},
        }
    ]
    with serving(binary, tmp_path, limited, trusted_proxies=["::ffff:127.0.0.0/104"]):
        for way in ("198.51.100.7", "::ffff:198.51.100.7", "198.51.100.7,::ffff:127.0.0.1"):
            assert ask("/", f"X-Forwarded-For: {way}") == "403", way
        assert ask("/", "X-Forwarded-For: ::ffff:192.0.2.9") == "200"
        assert ask("/", "X-Forwarded-For: 192.0.2.9, ::ffff:127.0.0.1") == "429"


def test_a_mapped_address_at_l4(binary, seen, tmp_path):
    routes = [
        {
            "name": "a",
            "listeners": ["web"],
            "sources": ["192.0.2.0/24"],
            "forward": "admin",
            "access": {"deny": ["192.0.2.7/32"]},
        },
        {"name": "b", "listeners": ["web"], "sources": ["::ffff:203.0.113.0/120"], "forward": "public"},
    ]
    with serving(binary, tmp_path, routes, mode="l4", proxy_protocol="accept", access={"deny": ["198.51.100.0/24"]}):
        for way in ("198.51.100.7", "::ffff:198.51.100.7", "::ffff:192.0.2.7", "2001:db8::1"):
            assert ask(start=proxied(way)) == "", way
        assert ask(start=proxied("::ffff:192.0.2.8")) == ask(start=proxied("203.0.113.9")) == "200"
        assert [each.split(b"\n")[0] for each in seen] == [b"admin", b"public"]


FORWARDED = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id")


def test_rules_see_forwarded_fields_of_trusted_proxies_alone(binary, seen, tmp_path):
    routes = [
        {"name": f"r{at}", "match": [{"headers": {name: {"regex": "10\\..*"}}}], "forward": "admin"}
        for at, name in enumerate(FORWARDED)
    ]
    routes.append({"name": "rest", "forward": "public"})
    with serving(binary, tmp_path, routes, trusted_proxies=["127.0.0.2/32"]):
        for name, source in itertools.product(FORWARDED, ("127.0.0.1", "127.0.0.2")):
            assert ask("/", f"{name}: 10.1.1.1", source=source) == "200"
            expected = b"admin" if source == "127.0.0.2" else b"public"
            assert seen[-1].startswith(expected), (name, source)


def test_keys_see_forwarded_fields_of_trusted_proxies_alone(binary, seen, tmp_path):
    """A client that invents a request ID is counted under none, which is no limit, as with the field left out."""
    limit = {"rate": "1/m", "key": {"header": "x-request-id"}}
    routes = [{"name": "a", "forward": "public", "rate_limit": limit}]
    with serving(binary, tmp_path, routes, trusted_proxies=["127.0.0.2/32"]):
        asked = [ask("/", "X-Request-ID: one", source=source) for source in ("127.0.0.1", "127.0.0.2") * 2]
        assert asked == ["200", "200", "200", "429"]


CONNECTIONS = ("close, X-Forwarded-For", "x-request-id", "keep-alive,x-api-key", "close keep-alive", "host")
USUAL = ("close", "TE, close", "keep-alive, Upgrade, HTTP2-Settings, close", "Close", "proxy-connection , close,")


def test_no_client_removes_a_field_by_naming_it_in_connection(binary, seen, tmp_path):
    with serving(binary, tmp_path, [{"name": "a", "forward": "public"}]):
        for value in CONNECTIONS:
            assert ask("/", f"Connection: {value}", "X-Api-Key: 1") == "400", value
        assert seen == []
        for value in USUAL:
            assert ask("/", f"Connection: {value}", "HTTP2-Settings: AAMAAABk", "Upgrade: h2c") == "200", value
            sent = seen[-1].lower()
            assert b"x-forwarded-for: 127.0.0.1" in sent
            assert b"x-request-id: " in sent
            assert not any(word in sent for word in (b"upgrade", b"http2-settings", b"\r\nte:", b"\r\nconnection:"))


def test_no_bare_bytes_get_between_the_frames_of_http2(binary, tmp_path):
    """An upgrade over HTTP/2 is malformed; nginx before 1.31 forwards it, and the answer as bytes of a tunnel."""
    if not VERSIONS[binary.version.rpartition(".")[0]].http2_directive:
        pytest.skip("it serves HTTP/2 beside HTTP/1 over TLS only")
    asked = []

    def answer(head: bytes, client: socket.socket) -> None:
        asked.append(head.lower())
        upgrades = b"\r\nupgrade: websocket" in asked[-1]
        client.sendall(
            b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\nbare bytes" if upgrades else OK + b"public\n"
        )

    with endpoint(PUBLIC, answer), serving(binary, tmp_path, TO_PUBLIC, http2=True):
        assert status(nginx_process.ask("/public", "Connection: upgrade", "Upgrade: websocket")) == "101"
        connection = H2Connection(H2Configuration(validate_outbound_headers=False, normalize_outbound_headers=False))
        connection.initiate_connection()
        head = ((":method", "GET"), (":scheme", "http"), (":path", "/public"), (":authority", "h"))
        connection.send_headers(1, (*head, ("upgrade", "websocket")), end_stream=True)
        got = nginx_process.send(connection.data_to_send(), 0.5)
    assert got
    assert b"bare" not in got
    assert not any(b"upgrade" in each for each in asked[1:])
