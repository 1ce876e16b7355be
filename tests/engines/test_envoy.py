"""The real Envoy: what the conformance cases do not ask."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml
from msgspec.structs import replace

from lbgen.conformance.http1_client import Answer, exchange, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.engines.envoy import ENGINE
from lbgen.plan.model import HeaderEdits, Plan, PoolProtocol, Respond, Route, Timeouts
from lbgen.plan.request import Request
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.engine_lists import need_binary
from tests.support.plans import by_prefix, endpoint, forward, pool, route
from tests.support.websocket import serve_extended_connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = pytest.mark.engines
TIMES = Timeouts(1_000, 700, 5_000)


def to_pool(name: str, index: int, **edits: HeaderEdits) -> Route:
    return route(name, forward("p", times=TIMES), index, **edits)


def plan_of(*routes: Route, host: str = "127.0.0.1", trusted: tuple[str, ...] = ()) -> Plan:
    port = free_port("127.0.0.1")
    away = endpoint(host, free_port("127.0.0.1", taken=frozenset((port,))))
    return by_prefix(port, routes, (pool("p", away),), trusted_proxies=trusted)


@contextmanager
def serving(plan: Plan) -> Iterator[EngineProcess]:
    binary = need_binary(ENGINE.name)
    stand_in = StandIn("e", "p", "127.0.0.1", plan.pools[0].endpoints[0].port)
    with stand_in_servers((stand_in,)), run_engine(ENGINE, plan, binary, accept=("all",)) as handle:
        yield handle


def get(
    handle: EngineProcess, path: str, *headers: tuple[str, str], method: str = "GET", client: str = "127.0.0.1"
) -> Answer:
    return fetch(handle.address("web"), Request(method, path, (("Host", "h"), *headers), client=client))


def sent(answer: Answer, name: str) -> list[str]:
    told = account_of(answer)
    assert told is not None, answer
    return [value for header, value in told["headers"] if header == name]


# The second are Envoy's own, by the prefix that its bootstrap sets.
@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)])
@pytest.mark.parametrize("prefix", ["x-envoy", "x-lbgen"])
def test_control_headers_of_a_client_control_nothing(prefix: str, trusted: tuple[str, ...]) -> None:
    with serving(plan_of(to_pool("a", 0), trusted=trusted)) as handle:
        hang = ("X-Stand-In", '{"mode": "hang", "wait_ms": 400}')
        controls = (
            (f"{prefix}-upstream-rq-timeout-ms", "1"),
            (f"{prefix}-upstream-rq-per-try-timeout-ms", "1"),
            (f"{prefix}-upstream-stream-duration-ms", "1"),
            (f"{prefix}-expected-rq-timeout-ms", "1"),
            (f"{prefix}-retry-on", "5xx"),
            (f"{prefix}-max-retries", "9"),
        )
        assert get(handle, "/a", hang, *controls).status == 200
        slow = get(handle, "/a", ("X-Stand-In", '{"mode": "fixed", "status": 503}'), *controls)
        assert slow.status == 503


def test_routes_say_the_content_type_of_their_answers() -> None:
    edits = HeaderEdits(set=(("content-type", "x/y"),))
    routes = (
        to_pool("a", 0, response_headers=edits),
        route("edited", Respond(200, "b%n", (("content-type", "text/html"),)), 1, response_headers=edits),
        route("typed", Respond(200, "100 %", (("content-type", "text/html"),)), 2),
    )
    with serving(plan_of(*routes)) as handle:
        assert get(handle, "/a").lines("content-type") == ("x/y",)
        assert (get(handle, "/edited").lines("content-type"), get(handle, "/edited").body) == (("x/y",), b"b%n")
        assert (get(handle, "/typed").lines("content-type"), get(handle, "/typed").body) == (("text/html",), b"100 %")


@pytest.mark.parametrize("status", [201, 304])
def test_fixed_answers_have_no_location_but_their_own(status: int) -> None:
    own = Respond(status, "", (("location", "/x"),))
    routes = (route("a", Respond(status, "", ()), 0), route("b", own, 1))
    with serving(plan_of(*routes)) as handle:
        assert get(handle, "/a").lines("location") == ()
        assert get(handle, "/b").lines("location") == ("/x",)


def test_values_of_a_trusted_peer_pass_as_they_came() -> None:
    with serving(plan_of(to_pool("a", 0), trusted=("127.0.0.2/32",))) as handle:
        values = [("X-Forwarded-For", "1.1.1.1,2.2.2.2"), ("X-Forwarded-Host", "a.b"), ("X-Request-Id", "mine")]
        answer = get(handle, "/a", *values, ("X-Forwarded-Proto", "https"), client="127.0.0.2")
        assert sent(answer, "x-forwarded-for") == ["1.1.1.1,2.2.2.2,127.0.0.2"]
        assert sent(answer, "x-forwarded-proto") == ["https"]
        assert sent(answer, "x-forwarded-host") == ["a.b"]
        assert sent(answer, "x-request-id") == ["mine"]
        for client in ("127.0.0.2", "127.0.0.1"):
            spoofed = get(handle, "/a", ("x-lbgen-proto", "ftp"), ("x-lbgen-peer", "127.0.0.2"), client=client)
            assert sent(spoofed, "x-forwarded-proto") == ["http"]
            assert sent(spoofed, "x-forwarded-for") == [client]
            assert sent(spoofed, "x-lbgen-proto") == sent(spoofed, "x-lbgen-peer") == []


def test_what_a_trusted_peer_did_not_say_is_not_made_up() -> None:
    plan = plan_of(to_pool("a", 0), trusted=("127.0.0.1/32",))
    (listener,) = plan.listeners
    plan = replace(plan, listeners=(replace(listener, forwarded_headers=False, request_id=False),))
    with serving(plan) as handle:
        answer = get(handle, "/a")
        assert [sent(answer, f"x-forwarded-{part}") for part in ("for", "proto", "host", "port")] == [[]] * 4
        assert sent(get(handle, "/a", ("X-Forwarded-Proto", "https")), "x-forwarded-proto") == ["https"]


def test_trailers_of_an_endpoint_reach_the_client() -> None:
    plan = plan_of(to_pool("a", 0))
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n1\r\na\r\n0\r\nx-sum: 7\r\n\r\n"
    request = b"GET /a HTTP/1.1\r\nHost: h\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n"
    binary = need_binary(ENGINE.name)
    at = ("127.0.0.1", plan.pools[0].endpoints[0].port)
    with (
        socket.create_server(at) as endpoint,
        run_engine(ENGINE, plan, binary, accept=("all",)) as handle,
        socket.create_connection(handle.address("web"), 10) as client,
    ):
        client.sendall(request)
        behind, _ = endpoint.accept()
        with behind:
            head = behind.recv(65_536)
            behind.sendall(answer)
            received = b"".join(iter(lambda: client.recv(65_536), b""))
    assert b"te: trailers" in head
    assert received.endswith(b"0\r\nx-sum: 7\r\n\r\n")


def test_a_websocket_reaches_an_endpoint_of_http2_as_an_extended_connect() -> None:
    plan = plan_of(to_pool("a", 0))
    plan = replace(plan, pools=(replace(plan.pools[0], protocol=PoolProtocol.HTTP2),))
    binary = need_binary(ENGINE.name)
    seen: list[dict[str, str]] = []
    lines = (
        "Host: h",
        "Connection: x, Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "",
    )
    with (
        socket.create_server(("127.0.0.1", plan.pools[0].endpoints[0].port)) as server,
        run_engine(ENGINE, plan, binary, accept=("all",)) as handle,
    ):
        threading.Thread(target=serve_extended_connect, args=(server, seen), daemon=True).start()
        refused = exchange(handle.address("web"), "\r\n".join(("POST /a HTTP/1.1", *lines, "")).encode())
        with socket.create_connection(handle.address("web"), 10) as client:
            client.sendall("\r\n".join(("GET /a HTTP/1.1", *lines, "")).encode())
            answer = client.recv(65_536)
    assert refused.status == 403
    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"sec-websocket-accept" not in answer.lower()
    assert [(each[":method"], each[":protocol"], each[":path"]) for each in seen] == [("CONNECT", "websocket", "/a")]


def test_connection_of_a_handshake_names_the_upgrade_alone() -> None:
    plan = plan_of(to_pool("a", 0))
    binary = need_binary(ENGINE.name)
    lines = ("GET /a HTTP/1.1", "Host: h", "Connection: keep-alive, X-Role, Upgrade", "Upgrade: websocket", "X-Role: a")
    with (
        socket.create_server(("127.0.0.1", plan.pools[0].endpoints[0].port)) as endpoint,
        run_engine(ENGINE, plan, binary, accept=("all",)) as handle,
        socket.create_connection(handle.address("web"), 10) as client,
    ):
        client.sendall("\r\n".join((*lines, "", "")).encode())
        behind, _ = endpoint.accept()
        with behind:
            head = behind.recv(65_536).split(b"\r\n")
    assert [each for each in head if each.startswith((b"connection:", b"x-role:"))] == [
        b"x-role: a",
        b"connection: upgrade",
    ]


def test_an_endpoint_name_is_resolved() -> None:
    with serving(plan_of(to_pool("a", 0), host="localhost")) as handle:
        answers = [get(handle, "/a").status for _ in range(3)]
        assert answers[-1] == 200


def test_long_tables_are_served_from_a_tree() -> None:
    routes = tuple(route(f"svc{n}", Respond(200, f"{n}\n", (("content-type", "text/plain"),)), n) for n in range(600))
    with serving(plan_of(*routes)) as handle:
        for path, body in (("/svc0", b"0\n"), ("/svc599/x?y", b"599\n"), ("/svc59", b"59\n"), ("/svc5/9", b"5\n")):
            assert get(handle, path).body == body
        for path in ("/svc600", "/svc5990", "/svc", "/"):
            assert get(handle, path).status == 404


def test_this_envoy_has_the_runtime_keys_that_are_set() -> None:
    """A key that Envoy does not know has no effect and is no error; a guard's name is in the executable."""
    binary = need_binary(ENGINE.name)
    made = plan_of(to_pool("a", 0))
    made = replace(made, listeners=tuple(replace(each, max_connections=9) for each in made.listeners))
    layers = yaml.safe_load(ENGINE.render(made, ENGINE.versions[0])[0].text)["layered_runtime"]["layers"]
    keys = {key for layer in layers for key in layer["static_layer"]}
    assert len(keys) >= 4
    known = binary.path.read_bytes()
    unknown = [key for key in sorted({*keys, "envoy.reloadable_features.no_such_guard"}) if not _is_known(key, known)]
    assert unknown == ["envoy.reloadable_features.no_such_guard"]


def _is_known(key: str, executable: bytes) -> bool:
    if key.startswith("envoy.resource_limits.listener."):
        return b"envoy.resource_limits.listener." in executable and b".connection_limit" in executable
    return any(each.encode() in executable for each in (key, key.replace(".", "_")))  # guards have underscores there
