"""Requests made up for routes."""

from __future__ import annotations

import re
import socket
import threading

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import RequestReceived, StreamEnded
from msgspec.structs import replace

import lbgen
from lbgen.plan.model import Mode, Plan
from lbgen.plan.regex import regex_example
from lbgen.plan.simulate import simulate
from lbgen.runtime.common.route_probes import ConnectOptions, Probe, ask, make_probes, probes_of_change
from tests.support.plans import examples

EXAMPLES = examples()


@pytest.mark.parametrize(
    "pattern",
    [
        "/v[0-9]+/x",
        "/(a|b)/c?",
        "/[^/]+",
        r"/\d{3}-\w+\.html",
        "/(?:x|y){2,3}",
        "(?i)abc",
        "a.*b",
        "^/anchored$",
        r"[^a0]",
        "/[^ ]+/[^0-9]",
        "",
    ],
)
def test_a_sample_matches(pattern):
    text = regex_example(pattern)
    assert text is not None
    assert re.fullmatch(pattern, text)


@pytest.mark.parametrize("pattern", ["(", r"\pN", r"(?=x)y"])
def test_no_sample_is_none(pattern):
    assert regex_example(pattern) is None


@pytest.mark.parametrize("plan", EXAMPLES.values(), ids=EXAMPLES)
def test_every_route_of_the_examples_gets_a_probe(plan):
    found = make_probes(plan)
    assert {probe.route for probe in found} == {route.name for route in plan.routes}
    assert len({(probe.listener, probe.route) for probe in found}) == len(found)


def test_a_probe_meets_every_condition_of_its_rule():
    conditions = {
        "path": {"regex": "/v[0-9]+/[^/]+"},
        "methods": ["POST"],
        "headers": {"x-a": "b", "x-p": {"present": True}, "x-r": {"regex": "a{3}"}},
        "query": {"q": "1 & 2", "r": {"regex": "[a-f]+"}},
        "cookies": {"c": "d"},
    }
    topology = {
        "version": 1,
        "name": "probe",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [
            {"name": "narrow", "hosts": ["*.a.example"], "match": [conditions], "forward": "p"},
            {"name": "rest", "forward": "p"},
        ],
    }
    plan = lbgen.plan(lbgen.load(topology))
    assert plan.listeners[0].mode is Mode.L7
    narrow, rest = make_probes(plan)
    assert simulate(plan, narrow.request).route == "narrow"
    assert simulate(plan, rest.request).route == "rest"


def test_a_change_is_asked_for_once_by_each_request_of_both_sides():
    def plan(*paths: str) -> Plan:
        routes = [{"name": path, "match": [{"path": {"prefix": f"/{path}"}}], "forward": "p"} for path in paths]
        return lbgen.plan(
            lbgen.load(
                {
                    "version": 1,
                    "name": "change",
                    "listeners": {"web": {"port": 8080}, "other": {"port": 8081}},
                    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
                    "routes": routes,
                }
            )
        )

    before, after = plan("stays", "gone"), plan("stays", "new")
    first, others = (
        sorted((probe.listener, probe.request.target, probe.status or 200) for probe in found)
        for found in probes_of_change(before, after)
    )
    assert first == [("other", "/gone", 404), ("other", "/new", 200), ("web", "/gone", 404), ("web", "/new", 200)]
    assert others == [("other", "/stays", 200), ("web", "/stays", 200)]
    first, others = probes_of_change(after, after)
    assert not first
    assert len(others) == len(make_probes(after)) == 4


def test_a_change_is_asked_for_by_the_names_of_the_new_certificate():
    def plan(name: str) -> Plan:
        pair = {"cert": "/x.crt", "key": "/x.key", "names": [name]}
        return lbgen.plan(
            lbgen.load(
                {
                    "version": 1,
                    "name": "t",
                    "listeners": {"web": {"port": 8443, "tls": {"certificates": [pair]}}},
                    "routes": [{"name": "ok", "respond": {"status": 200}}],
                }
            )
        )

    asked = [probe for group in probes_of_change(plan("old.example"), plan("new.example")) for probe in group]
    assert [probe.connect.sni for probe in asked] == ["new.example"]


@pytest.mark.parametrize(("client", "status", "pools"), [("127.0.0.1", None, {"p"}), ("10.214.0.1", 403, set())])
def test_access_lists_decide_by_the_address_that_the_engine_sees(client: str, status: int, pools: set[str]) -> None:
    topology = {
        "version": 1,
        "name": "probe",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "here", "forward": "p", "access": {"allow": ["127.0.0.0/8"]}}],
    }
    [probe] = make_probes(lbgen.plan(lbgen.load(topology)), client)
    assert (probe.status, probe.pools) == (status, pools)


@pytest.mark.parametrize(("real", "begins"), [(True, "no endpoint answers"), (False, "SSL")])
def test_a_connection_that_ends_before_tls_has_no_endpoint(real: bool, begins: str) -> None:
    """Traefik asks the endpoint of an L4 route before it answers a TLS handshake."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def close_after_the_hello() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)

        thread = threading.Thread(target=close_after_the_hello)
        thread.start()
        probe = Probe("r", "l", "routes[0]", None, None, frozenset({"p"}), connect=ConnectOptions(tls=True), real=real)
        got = ask(probe, *server.getsockname())
        thread.join(5)
    assert got.startswith(begins)


@pytest.mark.parametrize(("passthrough", "begins"), [(True, ""), (False, "SSLError")])
def test_an_alert_behind_passthrough_is_an_answer(passthrough: bool, begins: str) -> None:
    """A server may refuse a server name that it does not serve, or a client without a certificate."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def send_alert() -> None:
            client, _ = server.accept()
            with client:
                client.recv(65536)
                client.sendall(bytes.fromhex("15030300020270"))  # fatal, unrecognized_name
                client.recv(65536)

        thread = threading.Thread(target=send_alert)
        thread.start()
        way = ConnectOptions(tls=True, sni="app.example")
        probe = Probe("r", "l", "routes[0]", None, None, frozenset({"p"}), connect=way, real=True)
        got = ask(replace(probe, passthrough=passthrough), *server.getsockname())
        thread.join(5)
    assert got.startswith(begins)
    assert bool(got) is not passthrough


def test_probes_of_l4_say_where_endpoints_take_part_in_tls() -> None:
    topology = {
        "version": 1,
        "name": "probe",
        "listeners": {"web": {"port": 8443, "mode": "l4", "tls": {"mode": "passthrough"}}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:443"}]}},
        "routes": [{"name": "app", "listeners": ["web"], "hosts": ["app.example"], "forward": "p"}],
    }
    [probe] = make_probes(lbgen.plan(lbgen.load(topology)))
    assert (probe.passthrough, probe.connect.sni) == (True, "app.example")


def grpc_plan(**listener: object) -> Plan:
    topology = {
        "version": 1,
        "name": "probe",
        "listeners": {"web": {"port": 8080, **listener}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}], "protocol": "grpc"}},
        "routes": [{"name": "here", "match": [{"path": {"prefix": "/pkg.Service"}}], "forward": "p"}],
    }
    plan = lbgen.plan(lbgen.load(topology))
    return replace(plan, pools=tuple(replace(pool, stand_ins=False) for pool in plan.pools))


def serve_grpc(server: socket.socket, code: str = "12") -> None:
    """What a server of gRPC does: an answer to a call, a reset to all else."""
    client, _ = server.accept()
    connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    connection.initiate_connection()
    head: dict[str, str] = {}
    with client:
        while data := client.recv(65536):
            for event in connection.receive_data(data):
                if isinstance(event, RequestReceived):
                    head = {str(name): str(value) for name, value in event.headers or ()}
                    if (head[":method"], head.get("te")) != ("POST", "trailers"):
                        connection.reset_stream(1, ErrorCodes.PROTOCOL_ERROR)
                elif isinstance(event, StreamEnded) and head.get("content-type") == "application/grpc":
                    connection.send_headers(1, [(":status", "200"), ("grpc-status", code)], end_stream=True)
            client.sendall(connection.data_to_send())


@pytest.mark.parametrize(
    ("code", "got"), [("12", ""), ("0", ""), ("14", "no endpoint answers (grpc-status UNAVAILABLE)")]
)
def test_endpoints_of_grpc_get_a_call(code: str, got: str) -> None:
    """They reset a GET, which a proxy passes on as a failed endpoint."""
    [probe] = make_probes(grpc_plan(http2=True))
    assert probe.grpc
    assert probe.request is not None
    assert (probe.request.method, probe.request.target) == ("POST", "/pkg.Service")
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve_grpc, args=(server, code))
        thread.start()
        assert ask(probe, *server.getsockname()) == got
        thread.join(5)


def test_no_call_where_clients_of_grpc_cannot_connect() -> None:
    [probe] = make_probes(grpc_plan(http2=False))
    assert not probe.grpc
