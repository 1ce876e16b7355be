"""The real Envoy: what the conformance cases do not ask."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml

from lbgen.conformance.http1_client import Answer, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.diagnostics import EngineError
from lbgen.engines.envoy import ENGINE
from lbgen.plan.model import HeaderEdits, Plan, Respond, Route, Timeouts
from lbgen.plan.request import Request
from lbgen.records import replace
from lbgen.runtime.common.executables import find
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.plans import by_prefix, endpoint, forward, pool, route

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
    try:
        binary, _ = find(ENGINE)
    except EngineError as missing:
        pytest.skip(str(missing))
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
@pytest.mark.parametrize("prefix", ["x-envoy", "x-lbgen"])
def test_control_headers_of_a_client_control_nothing(prefix: str) -> None:
    with serving(plan_of(to_pool("a", 0))) as handle:
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


def test_routes_say_the_content_type_of_any_answer() -> None:
    edits = HeaderEdits(set=(("content-type", "x/y"),))
    routes = (
        to_pool("a", 0, response_headers=edits),
        route("empty", Respond(200, "", (("content-type", "text/html"),)), 1),
        route("edited", Respond(200, "b", (("content-type", "text/html"),)), 2, response_headers=edits),
        route("dropped", Respond(200, "b", ()), 3, response_headers=HeaderEdits(remove=("content-type",))),
    )
    with serving(plan_of(*routes)) as handle:
        made = get(handle, "/a", ("X-Stand-In", '{"mode": "close"}'))
        assert (made.status, made.lines("content-type"), made.body) == (502, ("x/y",), b"Bad Gateway\n")
        assert get(handle, "/a").lines("content-type") == ("x/y",)
        assert get(handle, "/empty").lines("content-type") == ("text/html",)
        assert get(handle, "/edited").lines("content-type") == ("x/y",)
        assert get(handle, "/dropped").lines("content-type") == ()


@pytest.mark.parametrize("status", [201, 304])
def test_fixed_answers_have_no_location_but_their_own(status: int) -> None:
    own = Respond(status, "", (("location", "/x"),))
    routes = (route("a", Respond(status, "", ()), 0), route("b", own, 1))
    with serving(plan_of(*routes)) as handle:
        assert get(handle, "/a").lines("location") == ()
        assert get(handle, "/b").lines("location") == ("/x",)


def test_a_trusted_peers_list_is_tidied_and_its_empty_values_count_as_none() -> None:
    with serving(plan_of(to_pool("a", 0), trusted=("127.0.0.2/32",))) as handle:
        lists = [("X-Forwarded-For", "1.1.1.1,2.2.2.2"), ("X-Forwarded-For", "")]
        assert sent(get(handle, "/a", *lists, client="127.0.0.2"), "x-forwarded-for") == ["1.1.1.1, 2.2.2.2, 127.0.0.2"]
        empty = [(name, "") for name in ("X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Request-Id")]
        answer = get(handle, "/a", *empty, client="127.0.0.2")
        assert sent(answer, "x-forwarded-for") == ["127.0.0.2"]
        assert sent(answer, "x-forwarded-proto") == ["http"]
        assert sent(answer, "x-forwarded-host") == ["h"]
        assert sent(answer, "x-request-id")[0]
        kept = get(handle, "/a", ("X-Forwarded-Proto", "https"), ("x-lbgen-proto", "ftp"), client="127.0.0.2")
        assert sent(kept, "x-forwarded-proto") == ["https"]
        assert sent(kept, "x-lbgen-proto") == []
        spoofed = get(handle, "/a", ("X-Forwarded-Proto", ""), ("x-lbgen-proto", "ftp"))
        assert sent(spoofed, "x-forwarded-proto") == ["http"]


def test_what_a_trusted_peer_did_not_say_is_not_made_up() -> None:
    plan = plan_of(to_pool("a", 0), trusted=("127.0.0.1/32",))
    (listener,) = plan.listeners
    plan = replace(plan, listeners=(replace(listener, forwarded_headers=False, request_id=False),))
    with serving(plan) as handle:
        answer = get(handle, "/a")
        assert [sent(answer, f"x-forwarded-{part}") for part in ("for", "proto", "host", "port")] == [[]] * 4
        assert sent(get(handle, "/a", ("X-Forwarded-Proto", "https")), "x-forwarded-proto") == ["https"]


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
    try:
        binary, _ = find(ENGINE)
    except EngineError as missing:
        pytest.skip(str(missing))
    made = plan_of(to_pool("a", 0))
    made = replace(made, listeners=tuple(replace(each, max_connections=9) for each in made.listeners))
    layers = yaml.safe_load(ENGINE.render(made, ENGINE.versions[0])[0].text)["layered_runtime"]["layers"]
    keys = {key for layer in layers for key in layer["static_layer"]}
    assert len(keys) >= 6
    known = binary.path.read_bytes()
    unknown = [key for key in sorted({*keys, "envoy.reloadable_features.no_such_guard"}) if not _is_known(key, known)]
    assert unknown == ["envoy.reloadable_features.no_such_guard"]


def _is_known(key: str, executable: bytes) -> bool:
    if key.startswith("envoy.resource_limits.listener."):
        return b"envoy.resource_limits.listener." in executable and b".connection_limit" in executable
    return any(each.encode() in executable for each in (key, key.replace(".", "_")))  # guards have underscores there
