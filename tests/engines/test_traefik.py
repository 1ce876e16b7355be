"""Traefik's real binary with its plugin: ids, clients behind proxies, bodies, times, backups, and how it is checked."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

import lbgen
from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import fetch
from lbgen.conformance.own_answers import account_of
from lbgen.engines.traefik import ENGINE
from lbgen.plan.request import Request
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local import check
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.http1_client import Answer
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.engine_process import EngineProcess
    from lbgen.runtime.standins.server import StandInServers

BINARIES = candidates(ENGINE)
pytestmark = [pytest.mark.engines, pytest.mark.skipif(not BINARIES, reason="no traefik here")]
HOST = "127.0.0.1"
PORTS = 23_400
PROXY, OTHER = "127.0.0.2", "127.0.0.3"
TIMES = {"client_header": "200ms", "client_body": "200ms", "keepalive": "5s"}


class Bench:
    """A running Traefik with stand-ins; `get` sends one request to it."""

    def __init__(self, handle: EngineProcess, group: StandInServers) -> None:
        self.address = handle.address("web")
        self.handle = handle
        self.group = group

    def get(self, target: str, *headers: tuple[str, str], client: str = HOST, method: str = "GET") -> Answer:
        return fetch(self.address, Request(method, target, (("Host", "h"), *headers), client=client))

    def received(self, target: str, *headers: tuple[str, str], client: str = HOST) -> dict[str, str]:
        """The headers that reached the endpoint."""
        account = account_of(self.get(target, *headers, client=client))
        assert account is not None
        return {name.lower(): value for name, value in account["headers"]}


def plan_of(routes: list[dict[str, Any]], pools: dict[str, list[StandIn]], port: int, **more: Any) -> Plan:
    """`more`: further fields of pools by name; `listener`: those of the listener."""
    listener = {"address": HOST, "port": port, "timeouts": TIMES, "trusted_proxies": [f"{PROXY}/32"]}
    topology = {
        "version": 1,
        "name": "bench",
        "access_log": "none",
        "listeners": {"web": {**listener, **more.pop("listener", {})}},
        "pools": {
            name: {"endpoints": [{"address": f"{HOST}:{each.port}"} for each in found], **more.get(name, {})}
            for name, found in pools.items()
        },
        "routes": routes,
    }
    return lbgen.plan(lbgen.load(topology))


@contextmanager
def bench(routes: list[dict[str, Any]], *names: str, **more: Any) -> Iterator[Bench]:
    """A pool of one endpoint for each name, and further fields of pools."""
    taken: set[int] = set()

    def port() -> int:
        taken.add(free_port(HOST, PORTS, frozenset(taken)))
        return max(taken)

    stand_ins = [StandIn(name, name, HOST, port()) for name in names]
    plan = plan_of(routes, {each.name: [each] for each in stand_ins}, port(), **more)
    with stand_in_servers(stand_ins) as group, run_engine(ENGINE, plan) as handle:
        yield Bench(handle, group)


def rule(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "match": [{"path": {"prefix": f"/{name}"}}], "forward": "p", **more}


@pytest.fixture(scope="module")
def served() -> Iterator[Bench]:
    inner = ["192.0.2.0/24"]
    routes = [
        rule("plain"),
        rule("own", forward=None, respond={"status": 418, "body": "own\n"}),
        rule("allowed", access={"allow": inner}),
        rule("denied", access={"deny": inner}),
        rule("limited", rate_limit={"rate": "1/h", "burst": 1, "key": "client_ip"}),
        rule("two", forward="two"),
        rule("timed", timeouts={"request": "500ms"}),
    ]
    for each in routes:
        if each["forward"] is None:
            del each["forward"]
    with bench(routes, "p", "two", two={"protocol": "http2"}) as found:
        yield found


def test_ids_are_made_and_those_of_trusted_proxies_kept(served):
    ids = {served.received("/plain")["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(len(each) == 32 for each in ids)
    forged = ("X-Request-Id", "forged")
    assert served.received("/plain", forged)["x-request-id"] != "forged"
    assert served.received("/plain", forged, client=PROXY)["x-request-id"] == "forged"
    hidden = ("Connection", "close, X-Request-Id")
    assert len(served.received("/plain", forged, hidden)["x-request-id"]) == 32


@pytest.mark.parametrize(
    "client", ["192.0.2.7", "::ffff:192.0.2.7", "6.6.6.6, 192.0.2.7", "192.0.2.7, ::ffff:127.0.0.2"]
)
def test_rules_on_addresses_see_the_client_behind_a_trusted_proxy(served, client):
    forwarded = ("X-Forwarded-For", client)
    assert served.get("/allowed", forwarded, client=PROXY).status == 200
    assert served.get("/denied", forwarded, client=PROXY).status == 403
    assert served.get("/allowed", forwarded, client=OTHER).status == 403
    assert served.get("/denied", forwarded, client=OTHER).status == 200


def test_the_peer_is_added_to_what_it_forwards(served):
    assert served.received("/allowed", ("X-Forwarded-For", "192.0.2.7"), client=PROXY)["x-forwarded-for"] == (
        f"192.0.2.7, {PROXY}"
    )
    assert served.received("/plain", ("X-Forwarded-For", "192.0.2.7"), client=OTHER)["x-forwarded-for"] == OTHER


def test_limits_count_the_client_behind_a_trusted_proxy(served):
    def status(client: str) -> int | None:
        return served.get("/limited", ("X-Forwarded-For", client), client=PROXY).status

    assert [status("192.0.2.7"), status("192.0.2.8")] == [200, 200]
    assert [status("192.0.2.7"), status("::ffff:192.0.2.8")] == [429, 429]


def test_a_request_has_its_time_in_all(served):
    served.group.behave("p", Behaviour("hang", wait_ms=3000))
    try:
        answer = served.get("/timed")
    finally:
        served.group.behave("p", Behaviour())
    assert answer.status == 504
    assert 0.4 <= answer.elapsed < 1.5


def test_trace_reaches_no_endpoint(served):
    assert served.get("/plain", method="TRACE").status == 400


def test_a_handshake_goes_to_an_endpoint_of_http2_over_http1_as_explain_says(served):
    assert served.get("/two", *HANDSHAKE).status == 101


def _until_closed(served: Bench, sent: bytes) -> float:
    """Seconds until the proxy closes a connection on which no more than `sent` comes."""
    with socket.create_connection(served.address, timeout=5) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        while connection.recv(65536):
            pass
        return time.monotonic() - begun


def test_what_stops_coming_is_ended(served):
    assert 1.9 <= _until_closed(served, b"GET /plain HTTP/1.1\r\nHost:") < 4
    assert 1.9 <= _until_closed(served, b"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf") < 4


def test_an_upload_may_take_longer_than_the_time_for_heads_and_for_silences(served):
    with socket.create_connection(served.address, timeout=5) as connection:
        connection.sendall(b"POST /plain HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\n")
        for _ in range(5):
            time.sleep(0.15)
            connection.sendall(b"x")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_ping_and_metrics_are_on_the_internal_entry_point(served):
    at = f"http://{HOST}:{served.handle.plan.admin_port}"
    assert urlopen(f"{at}/ping").read() == b"OK"
    assert b"traefik_config_reloads_total" in urlopen(f"{at}/metrics").read()
    assert served.get("/ping").status == served.get("/metrics").status == 404


def test_a_changed_file_is_taken_over_without_a_lost_request(served):
    old = served.handle.directory / "dynamic" / "http.yaml"
    fresh = served.handle.directory / "http.new"
    fresh.write_text(old.read_text(encoding="utf-8").replace('body: "own\\n"', 'body: "new\\n"'), encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(old)
    end = time.monotonic() + 5
    bodies = []
    while time.monotonic() < end and bodies[-3:] != [b"new\n"] * 3:
        bodies.append(served.get("/own").body)
    assert set(bodies) in ({b"own\n", b"new\n"}, {b"new\n"})


def test_backups_serve_while_no_other_endpoint_is_up():
    checks = {"active": {"path": "/", "interval": "200ms", "timeout": "200ms", "fall": 1, "rise": 1}}
    taken = {free_port(HOST, PORTS)}
    taken.add(free_port(HOST, PORTS, frozenset(taken)))
    port = free_port(HOST, PORTS, frozenset(taken))
    main, backup = (StandIn(name, "p", HOST, at) for name, at in zip(("main", "backup"), sorted(taken), strict=True))
    endpoints = [{"address": f"{HOST}:{main.port}"}, {"address": f"{HOST}:{backup.port}", "backup": True}]
    plan = plan_of([rule("plain")], {"p": []}, port, p={"endpoints": endpoints, "health": checks})
    with stand_in_servers([main, backup]) as group, run_engine(ENGINE, plan) as handle:
        found = Bench(handle, group)

        def wait_for(name: str) -> None:
            end = time.monotonic() + 5
            while (account := account_of(found.get("/plain"))) is None or account["name"] != name:
                assert time.monotonic() < end
                time.sleep(0.05)

        wait_for("main")
        group.behave("main", Behaviour("close"))
        wait_for("backup")
        group.behave("main", Behaviour())
        wait_for("main")


def test_the_checker_is_content_with_what_is_rendered():
    plan = plan_of([rule("plain")], {"p": [StandIn("p", "p", HOST, 9)]}, free_port(HOST, PORTS))
    assert check.check(plan, ENGINE, BINARIES[0]) == ()


def test_the_checker_names_what_traefik_refuses():
    route = {"name": "bad", "match": [{"path": {"regex": "/a"}}], "forward": "p"}
    plan = plan_of([route], {"p": [StandIn("p", "p", HOST, 9)]}, free_port(HOST, PORTS))

    class Broken(type(ENGINE)):  # type: ignore[misc]
        def render(self, plan: Plan, version: str) -> Any:
            from msgspec.structs import replace

            return tuple(
                replace(file, text=file.text.replace("^(?:/a)$", "^(?:/[z-a])$"))
                for file in super().render(plan, version)
            )

    found = check.check(plan, Broken(), BINARIES[0])
    assert any("invalid character class range" in problem.message for problem in found)
