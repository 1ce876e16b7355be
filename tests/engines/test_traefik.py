"""Traefik's real binary: what its own parts would change arrives as sent, silences end, files are judged."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.http1_client import fetch
from lbgen.conformance.own_answers import account_of
from lbgen.engines.traefik import ENGINE, Traefik
from lbgen.plan.model import (
    Balance,
    ClientTimeouts,
    Forward,
    HostPattern,
    Match,
    PathKind,
    PathMatch,
    Plan,
    Pool,
    Respond,
    Timeouts,
)
from lbgen.plan.pool import PoolProtocol
from lbgen.plan.precedence import UnrankedRule
from lbgen.plan.request import Request
from lbgen.records import replace
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local import check
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.http1 import CONTROL
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn
from tests.support import plans
from tests.support.plans import by_match, by_prefix, endpoint, forward, route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.http1_client import Answer
    from lbgen.engines.api import RenderedFile
    from lbgen.runtime.local.engine_process import EngineProcess
    from lbgen.runtime.standins.server import StandInServers

BINARIES = candidates(ENGINE)
pytestmark = [pytest.mark.engines, pytest.mark.skipif(not BINARIES, reason="no traefik here")]
IDLE = 700
PORTS = 23_400


def plan(port: int, pools: tuple[Pool, ...]) -> Plan:
    """One route per pool (`/<pool>`) and `/own`, which answers by itself; 127.0.0.2 is a trusted proxy."""
    actions: dict[str, Forward | Respond] = {
        each.name: forward(each.name, times=Timeouts(1000, 2000, IDLE)) for each in pools
    }
    actions["own"] = Respond(200, "own\n", (("content-type", "text/plain"),))
    routes = (route(name, action, i) for i, (name, action) in enumerate(actions.items()))
    times = ClientTimeouts(1000, 1000, 5000)
    return by_prefix(port, routes, pools, trusted_proxies=("127.0.0.2/32",), timeouts=times)


def pool(name: str, ports: dict[int, int], balance: Balance = Balance.ROUND_ROBIN, host: str = "127.0.0.1") -> Pool:
    """Endpoints as port: weight."""
    return plans.pool(name, *(endpoint(host, port, weight) for port, weight in ports.items()), balance=balance)


class Bench:
    """A running Traefik with stand-ins; `get` sends one request to it."""

    def __init__(self, handle: EngineProcess, group: StandInServers) -> None:
        self.address = handle.address("web")
        self.handle = handle
        self.group = group

    def get(self, target: str, *headers: tuple[str, str], client: str = "127.0.0.1", host: str = "h") -> Answer:
        return fetch(self.address, Request("GET", target, (("Host", host), *headers), client=client))

    def told(self, target: str, *headers: tuple[str, str], client: str = "127.0.0.1") -> tuple[str, dict[str, str]]:
        """The target and headers that reached the endpoint."""
        account = account_of(self.get(target, *headers, client=client))
        assert account is not None
        return account["target"], {name.lower(): value for name, value in account["headers"]}


@contextmanager
def bench() -> Iterator[Bench]:
    taken: set[int] = set()

    def port(host: str = "127.0.0.1") -> int:
        taken.add(free_port(host, PORTS, frozenset(taken)))
        return max(taken)

    one, heavy, light, two, six = port(), port(), port(), port(), port("::1")
    stand_ins = (
        StandIn("one", "p", "127.0.0.1", one),
        StandIn("heavy", "hashed", "127.0.0.1", heavy),
        StandIn("light", "hashed", "127.0.0.1", light),
        StandIn("six", "six", "::1", six),
        StandIn("two", "two", "127.0.0.1", two),
    )
    pools = (
        pool("p", {one: 1}),
        pool("hashed", {heavy: 3, light: 1}, Balance.SOURCE_HASH),
        pool("six", {six: 1}, host="::1"),
        replace(pool("two", {two: 1}), protocol=PoolProtocol.HTTP2),
    )
    with stand_in_servers(stand_ins) as group, run_engine(ENGINE, plan(port(), pools), accept=("all",)) as handle:
        yield Bench(handle, group)


@pytest.fixture(scope="module")
def served() -> Iterator[Bench]:
    with bench() as found:
        yield found


@pytest.mark.parametrize(
    "target", ["/p?a=1;b=2&c=%zz", "/p/caf%c3%a9/(x)!'*", "/p/%3A:@,;=+$&[]", "/p/?", "/p?", "/p/%25%20"]
)
def test_the_target_arrives_byte_for_byte(served, target):
    assert served.told(target)[0] == target


def test_a_plain_response_without_a_type_gets_one_after_an_interim_response_as_explain_says() -> None:
    place = free_port("127.0.0.1", PORTS)
    plain = by_prefix(free_port("127.0.0.1", place + 1), [route("p", forward("p"))], (pool("p", {place: 1}),))
    types = []
    with (
        stand_in_servers((StandIn("one", "p", "127.0.0.1", place),)),
        run_engine(ENGINE, plain, accept=("all",)) as handle,
    ):
        for interim in ([], [103]):
            control = json.dumps({"mode": "fixed", "body": "x", "interim": interim})
            answer = fetch(handle.address("web"), Request("GET", "/p", (("Host", "h"), (CONTROL, control))))
            types += [value for name, value in answer.headers if name.lower() == "content-type"] or [""]
    assert types == ["", "text/plain; charset=utf-8"]


def test_expect_is_answered_once(served: Bench) -> None:
    upload = Request("POST", "/p/x", (("Host", "h"), ("Content-Length", "3"), ("Expect", "100-continue")), body=b"abc")
    answer = fetch(served.address, upload)
    account = account_of(answer)
    assert answer.interim == (100,)
    assert account is not None
    assert "expect" not in {name.lower() for name, _ in account["headers"]}


def test_an_escaped_unreserved_character_is_seen_although_traefik_decodes_it(served):
    assert served.get("/p/%66oo").status == 400
    assert served.get("/p/%66oo(x)").status == 400
    assert served.get("/p/foo(x)").status == 200


def test_no_header_is_invented(served):
    _, headers = served.told("/p", ("X-Real-Ip", "192.0.2.7"))
    framing = {"connection", "content-length", "transfer-encoding"}
    forwarded = {f"x-forwarded-{x}" for x in ("for", "proto", "host", "port")}
    assert set(headers) - framing == {"host", "x-real-ip", "x-request-id", *forwarded}


@pytest.mark.parametrize("port", ["443", "80", "9999"])
def test_a_trusted_port_stays_also_when_traefik_would_have_filled_in_the_same(served, port):
    proto = ("X-Forwarded-Proto", "https" if port == "443" else "http")
    _, headers = served.told("/p", proto, ("X-Forwarded-Port", port), client="127.0.0.2")
    assert headers["x-forwarded-port"] == port


def test_a_trusted_peer_without_a_port_gets_the_listeners(served):
    _, headers = served.told("/p", ("X-Forwarded-Proto", "https"), client="127.0.0.2")
    assert headers["x-forwarded-proto"] == "https"
    assert headers["x-forwarded-port"] == str(served.address[1])


def test_the_first_request_of_a_process_keeps_its_headers_too():
    with bench() as fresh:
        given = {"X-Forwarded-Server": "edge-1", "X-Real-Ip": "127.0.0.1", "X-Long": "y" * 5000}
        headers = fresh.told("/p", *given.items())[1]
        assert {name: headers.get(name.lower()) for name in given} == given


def test_a_trusted_peer_with_a_large_head_is_still_trusted(served):
    large = ("X-Large", "x" * 9000)
    _, headers = served.told("/p", large, ("X-Forwarded-For", "192.0.2.1"), client="127.0.0.2")
    assert headers["x-forwarded-for"] == "192.0.2.1, 127.0.0.2"
    assert headers["x-forwarded-port"] == str(served.address[1])


def test_an_absolute_target_needs_a_host_line_that_can_be_read(served):
    assert served.get("http://h/p").status == 200
    assert served.get("http://other/p").status == 400
    assert served.get("http://h/p", ("X-Large", "x" * 9000)).status == 400


def test_a_request_is_sent_once_also_on_a_kept_connection_that_breaks(served):
    assert served.get("/p").status == 200
    before = served.group.requests["one"]
    served.group.behave("one", Behaviour("close"))
    try:
        assert served.get("/p").status == 502
        assert served.group.requests["one"] == before + 1
    finally:
        served.group.behave("one", Behaviour())


def test_a_handshake_for_an_endpoint_of_http2_reaches_it_as_a_request(served):
    assert "upgrade" not in served.told("/two", *HANDSHAKE)[1]


def test_ipv6_endpoints_are_reached(served):
    assert served.told("/six")[0] == "/six"


def test_source_hash_follows_the_weights(served):
    """Weights 3 and 1 over 120 clients: 90 and 30, four standard deviations either way."""
    homes: Counter[str] = Counter()
    for number in range(10, 130):
        account = account_of(served.get("/hashed", client=f"127.0.0.{number}"))
        assert account is not None
        homes[account["name"]] += 1
    assert 71 <= homes["heavy"] <= 109


def test_a_silent_body_is_cut_so_that_the_client_sees_it(served):
    served.group.behave("one", Behaviour("stall_body", wait_ms=5000))
    try:
        answer = served.get("/p")
    finally:
        served.group.behave("one", Behaviour())
    assert answer.status == 200
    assert not answer.complete
    assert IDLE / 1000 <= answer.elapsed < 3


def test_a_silent_upload_is_ended(served):
    head = b"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"
    assert IDLE / 1000 - 0.1 <= _until_closed(served, head) < 3


def test_a_head_that_never_ends_is_ended(served):
    served.get("/own")
    assert 0.9 <= _until_closed(served, b"GET /p HTTP/1.1\r\nHost:") < 3


def test_an_upload_may_take_longer_than_a_head(served):
    with socket.create_connection(served.address, timeout=5) as connection:
        connection.sendall(b"POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 4\r\n\r\n")
        for _ in range(4):
            time.sleep(0.4)
            connection.sendall(b"x")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def _until_closed(served: Bench, sent: bytes) -> float:
    """Seconds until the proxy closes a connection on which no more than `sent` comes."""
    with socket.create_connection(served.address, timeout=5) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        while connection.recv(65536):
            pass
        return time.monotonic() - begun


def test_a_changed_file_is_taken_over_without_a_lost_request(served):
    directory = served.handle.directory
    old = directory / "dynamic" / "edge-web.yaml"
    text = old.read_text(encoding="utf-8")
    fresh = directory / "edge-web.new"
    fresh.write_text(text.replace('body: "own\\n"', 'body: "new\\n"'), encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(old)
    end = time.monotonic() + 5
    bodies = []
    while time.monotonic() < end and bodies[-3:] != [b"new\n"] * 3:
        bodies.append(served.get("/own").body)
    assert set(bodies) == {b"own\n", b"new\n"} or set(bodies) == {b"new\n"}


def test_the_checker_is_content_with_what_is_rendered():
    made = plan(free_port("127.0.0.1", PORTS), (pool("p", {9: 1}),))
    assert check.check(made, ENGINE, BINARIES[0], accept=("all",)) == ()


def test_the_checker_tells_what_traefik_says():
    made = plan(free_port("127.0.0.1", PORTS), (pool("p", {9: 1}),))
    bad = Match(PathMatch(PathKind.REGEX, "/[z-a]"))
    own = next(each for each in made.routes if each.name == "own")
    made = replace(made, listeners=by_match([(bad, own)], port=made.listeners[0].port).listeners)
    found = check.check(made, ENGINE, BINARIES[0], accept=("all",))
    assert any("invalid character class range" in problem.message for problem in found)


_PRINTED = """
func (h *headTime) Value(key any) any {
	_, _ = os.Stderr.WriteString("searched\\n")
	return h.Context.Value(key)
}
"""


def test_no_search_for_a_value_reaches_the_interpreted_context_of_a_connection():
    class Printing(Traefik):
        """Each search that comes so far is a line of the output."""

        def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
            made = super().render(plan, version)
            return tuple(
                replace(file, text=file.text.replace("import (", 'import (\n"os"', 1) + _PRINTED)
                if file.name.endswith("/head_timeout.go")
                else file
                for file in made
            )

    endpoint_port = free_port("127.0.0.1", PORTS)
    front = free_port("127.0.0.1", PORTS, frozenset({endpoint_port}))
    rules = [
        UnrankedRule(f"p.{n}", "p", 0, HostPattern(f"h{n}.test"), Match(PathMatch(PathKind.PREFIX, "/")), "routes[0]")
        for n in range(60)
    ]
    routes = (route("p", forward("p", times=Timeouts(1000, 2000, 5000)), 0),)
    times = ClientTimeouts(1000, 1000, 5000)
    made = plans.on_web(rules, routes, (pool("p", {endpoint_port: 1}),), port=front, timeouts=times)
    stand_in = StandIn("one", "p", "127.0.0.1", endpoint_port)
    counts = []
    with stand_in_servers((stand_in,)), run_engine(Printing(), made, accept=("all",)) as handle:
        connection = http.client.HTTPConnection(*handle.address("web"), timeout=5)
        for _ in range(3):
            connection.request("GET", "/", headers={"Host": "h59.test"})
            answer = connection.getresponse()
            assert answer.status == 200
            answer.read()
            counts.append(handle.log.read_text(encoding="utf-8").count("searched"))
        connection.close()
    assert counts[0] > 0
    assert counts[1] == counts[2]


def test_a_traefik_of_another_make_is_refused_at_the_start():
    class Other(Traefik):
        def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
            made = super().render(plan, version)
            return tuple(replace(file, text=file.text.replace('"bufr"', '"gone"')) for file in made)

    made = plan(free_port("127.0.0.1", PORTS), (pool("p", {9: 1}),))
    found = check.check(made, Other(), BINARIES[0], accept=("all",))
    assert any("does not know the net/http of this Traefik" in problem.message for problem in found)
