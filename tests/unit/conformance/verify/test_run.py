"""What `lbgen verify` asks, how it shortens times, and how a hand's edits survive that."""

from __future__ import annotations

import difflib
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify import edited_files, faults, requests
from lbgen.conformance.verify.addresses import move_to_loopback, restore_port, why_moved
from lbgen.conformance.verify.cases import Phase, time_window
from lbgen.conformance.verify.edited_files import has_same_shape
from lbgen.conformance.verify.jobs import Finished, Job
from lbgen.conformance.verify.report import Report, UnverifiedEngine, compare_engines
from lbgen.conformance.verify.time_scaling import LONGEST, SHORTEST, Scale, choose_scale, scale_times, times_of
from lbgen.conformance.verify.worker import stand_ins
from lbgen.conformance.wait_ready import readiness_requests
from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import Binary, RenderedFile, engine_names
from lbgen.engines.rendered import Rendered
from lbgen.plan.simulate import simulate
from lbgen.runtime.local.messages import EngineChoice
from tests.support.plans import examples

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

EXAMPLES = examples()
CLIENT = "198.51.100.7"
L7 = ("envoy", "haproxy", "nginx", "traefik")


def plan_of(*routes: dict[str, Any], **more: Any) -> Plan:
    data: dict[str, Any] = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"a": {"endpoints": [{"address": "10.0.0.1:80"}]}, "b": {"endpoints": [{"address": "10.0.0.2:80"}]}},
    }
    return lbgen.plan(lbgen.load({**data, "routes": list(routes), **more}))


@pytest.mark.parametrize("plan", EXAMPLES.values(), ids=EXAMPLES)
def test_short_times_keep_their_order_and_nothing_but_numbers_changes(plan: Plan) -> None:
    scale = choose_scale(plan)
    real = times_of(plan)
    short = [scale(time) for time in real]
    assert short == sorted(set(short)), "different times stay different"
    assert max(short) <= LONGEST * 1.5
    assert min(short) >= min(SHORTEST, *real)
    assert times_of(scale_times(plan, scale)) == tuple(short)
    for name in engine_names():
        try:
            ours = lbgen.render(plan, engine=name, accept=("all",))
        except lbgen.LbgenError:
            continue
        copy = lbgen.render(scale_times(plan, scale), engine=name, accept=("all",))
        assert edited_files.line_changes(ours, copy)
        assert dict(edited_files.with_verified_times(ours, ours, copy)) == dict(copy)
        assert edited_files.user_edits(ours, ours) == ()


def test_short_times_are_left_alone() -> None:
    plan = plan_of(
        {"name": "all", "forward": "a", "timeouts": {"connect": "1s", "response": "2s", "idle": "0s"}},
        client_timeouts={"client_header": "1s", "client_body": "1s", "keepalive": "1s"},
    )
    assert choose_scale(plan) == Scale()
    assert scale_times(plan, choose_scale(plan)) == plan


def rendered(text: str) -> Rendered:
    return Rendered("x", "1", (RenderedFile("x.conf", text),))


def test_a_hand_s_edits_survive_shorter_times() -> None:
    real = rendered("a 60s;\nb 5s;\nroute one;\nroute two;\nweight 3;\n")
    short = rendered("a 3s;\nb 250ms;\nroute one;\nroute two;\nweight 3;\n")
    mine = rendered("a 30s;\nroute two;\nroute one;\nb 5s;\n# a note\nweight 3;\n")
    assert edited_files.with_verified_times(mine, real, short)["x.conf"].splitlines() == [
        *("a 1500ms;", "route two;", "route one;", "b 250ms;", "# a note", "weight 3;")
    ]
    assert edited_files.with_verified_times(real, real, short)["x.conf"] == short["x.conf"]
    assert edited_files.user_edits(mine, real)[0] == "x.conf:1: a 30s;"


@pytest.mark.parametrize("text", ["a 3s;\n", "a 3s;\nc 250ms;\n"])
def test_files_that_differ_in_more_than_numbers_are_not_vouched_for(text: str) -> None:
    with pytest.raises(ValueError, match=r"x\.conf"):
        edited_files.line_changes(rendered("a 60s;\nb 5s;\n"), rendered(text))


def test_two_rules_that_one_request_fulfils_are_asked_for_it() -> None:
    plan = plan_of(
        {"name": "header", "match": [{"path": {"prefix": "/x"}, "headers": {"x-a": "1"}}], "forward": "a"},
        {"name": "cookie", "match": [{"path": {"prefix": "/x"}, "cookies": {"c": "1"}}], "forward": "b"},
        {"name": "other", "match": [{"path": {"prefix": "/y"}, "methods": ["POST"]}], "forward": "b"},
    )
    orders = [
        case.request for case in requests.request_cases(plan, CLIENT, most=1000, seed=1) if case.clause == "2.order"
    ]
    assert [simulate(plan, request).route for request in orders] == ["header"]
    assert {n for n, _ in orders[0].headers} == {"Host", "x-a", "Cookie"}


def test_every_rule_is_asked_for_however_few_requests_there_may_be() -> None:
    plan = plan_of(*({"name": f"r{n}", "match": [{"path": {"exact": f"/{n}"}}], "forward": "a"} for n in range(8)))
    few = requests.request_cases(plan, CLIENT, most=12, seed=1)
    assert len(few) == 12
    assert {simulate(plan, case.request).route for case in few} >= {f"r{n}" for n in range(8)}
    assert few == requests.request_cases(plan, CLIENT, most=12, seed=1)
    many = requests.request_cases(plan, CLIENT, most=150, seed=1)
    assert many != requests.request_cases(plan, CLIENT, most=150, seed=2)


def test_on_loopback_nobody_comes_from_elsewhere() -> None:
    plan = plan_of({"name": "all", "forward": "a", "access": {"allow": ["10.0.0.0/8"]}})
    clients = {case.request.client for case in requests.request_cases(plan, CLIENT, most=1000, seed=1)}
    assert {CLIENT, "10.0.0.9"} <= clients
    local = requests.request_cases(plan, "127.0.0.1", most=1000, seed=1)
    assert {case.request.client for case in local} == {"127.0.0.1"}


def test_tries_and_times_are_those_of_the_route() -> None:
    retries = {"max": 2, "on": ["connect_failure", "reset", 503]}
    plan = plan_of(
        {
            "name": "all",
            "forward": "a",
            "retries": retries,
            "timeouts": {"connect": "1s", "response": "2s", "idle": "2s"},
        }
    )
    cases = [(one.case, one.phase) for one in faults.fault_cases(plan, CLIENT)]
    tries = {
        (case.clause, case.request.method, case.steps[0].get("status", 0)): case.expect.tries
        for case, _ in cases
        if case.steps
    }
    assert tries["6.retries.close", "GET", 0] == 3
    assert tries["5.close", "POST", 0] == 1
    assert tries["6.response", "GET", 0] == 1
    assert tries["6.retries.status", "GET", 503] == 3
    assert tries["5.own-status", "GET", 500] == 1
    connect = [case.expect.within_ms for case, phase in cases if phase is Phase.DROPPED]
    assert connect == [time_window(3000, 3)] * 2, "a connect failure is tried again for any method"


def test_each_share_of_a_split_fails_by_itself() -> None:
    plan = plan_of({"name": "all", "forward": [{"pool": "a", "weight": 95}, {"pool": "b", "weight": 5}]})
    split = [one for one in faults.fault_cases(plan, CLIENT) if one.case.script == "split_fails"]
    assert {(one.pool, one.phase) for one in split} == set(product("ab", (Phase.HUNG, Phase.DROPPED)))
    assert next(one.case.params["most"] for one in split if one.pool == "b") >= 140


def result(state: CaseState, engine: str = "nginx") -> Result:
    return Result(engine, "topology", "2.rule/1", "2.rule", state)


@pytest.mark.parametrize(
    ("results", "broken", "code"),
    [
        ((CaseState.PASS, CaseState.APPROXIMATE), False, 0),
        ((CaseState.PASS, CaseState.FAIL), False, 4),
        ((CaseState.PASS,), True, 3),
        ((CaseState.FAIL,), True, 4),
    ],
)
def test_exit_codes(results: tuple[CaseState, ...], broken: bool, code: int) -> None:
    left = (UnverifiedEngine("envoy", (Diagnostic("LB403", "it died"),), broken=True),) if broken else ()
    report = Report("t", tuple(map(result, results)), left, (), Scale(), moved_because="", seconds=1.0)
    assert (report.exit_code, report.green) == (code, code == 0)
    assert report.as_dict()["green"] is report.green


def test_engines_are_compared_with_each_other() -> None:
    plan = plan_of({"name": "all", "forward": "a"})
    cases = requests.request_cases(plan, CLIENT, most=10, seed=1)
    one = Finished("nginx", (), {cases[0].id: (200, "", "a", "/")})
    other = replace(one, engine="envoy", answers={cases[0].id: (404, "", "", "")})
    (found,) = compare_engines([one, other], cases)
    assert (found.state, found.subject) == (CaseState.FAIL, "nginx, envoy")
    assert compare_engines([one, replace(one, engine="envoy")], cases) == ()


@pytest.mark.parametrize(
    ("location", "own"),
    [
        ("http://shop.example:20004/x?a=1:20004", "http://shop.example:8080/x?a=1:20004"),
        ("http://[::1]:20004/", "http://[::1]:8080/"),
        ("http://shop.example:20005/", "http://shop.example/"),
        ("https://shop.example:20005/", "https://shop.example:80/"),
        ("https://shop.example:8443/", "https://shop.example:8443/"),
        ("http://shop.example/20004", "http://shop.example/20004"),
        ("", ""),
    ],
)
def test_a_redirect_s_port_is_compared_as_the_topology_has_it(location: str, own: str) -> None:
    assert restore_port(location, {20004: 8080, 20005: 80}) == own


def test_no_listener_is_moved_to_a_port_that_a_redirect_names() -> None:
    plan = plan_of(
        {"name": "moved", "match": [{"path": {"exact": "/x"}}], "redirect": {"port": 20_001}},
        {"name": "all", "forward": "a"},
    )
    binary = Binary(Path("/x"), "1")
    (moved, other) = move_to_loopback([Job(name, "1", binary, plan, ()) for name in ("nginx", "envoy")])
    ports = [order.plan.listeners[0].port for order in (moved, other)]
    assert len(set(ports)) == 2
    assert 20_001 not in {*ports, *(e.port for x in (moved, other) for p in x.plan.pools for e in p.endpoints)}
    assert [dict(order.own_ports) for order in (moved, other)] == [{port: 8080} for port in ports]


def test_shorter_times_leave_every_engine_s_files_and_verdicts_alike() -> None:
    retries = {"max": 2, "on": ["connect_failure", 502]}
    plan = plan_of(
        {"name": "all", "forward": "a", "retries": retries},
        {"name": "slow", "match": [{"path": {"exact": "/slow"}}], "forward": "b", "timeouts": {"connect": "1s"}},
        timeouts={"response": "6s"},
    )
    envoy = EngineChoice("envoy", "Envoy", "1.40", Binary(Path("/x"), "1.40"), kernel=False, resolvers=())
    assert has_same_shape(envoy, plan, scale_times(plan, choose_scale(plan)))
    scale = choose_scale(plan, lambda shorter: has_same_shape(envoy, plan, shorter))
    assert scale.factor > 1
    assert has_same_shape(envoy, plan, scale_times(plan, scale))


def test_a_listener_whose_routes_all_have_a_rate_is_waited_for() -> None:
    plan = plan_of({"name": "all", "forward": "a", "rate_limit": {"rate": "1/s", "key": "client_ip"}})
    (asked_for,) = readiness_requests(plan)
    assert (asked_for.method, asked_for.listener) == ("TRACE", "web")
    assert simulate(plan, asked_for).status == 405


@pytest.mark.parametrize(
    ("request_time", "body_time", "stalled"),
    [("2s", "3s", (504, 2000)), ("3s", "2s", (408, 2000)), ("2s", "0s", (504, 2000))],
)
def test_the_time_of_a_request_or_of_its_body_ends_an_upload(
    request_time: str, body_time: str, stalled: tuple[int, int]
) -> None:
    plan = plan_of(
        {"name": "all", "forward": "a", "timeouts": {"request": request_time, "response": "1s", "idle": "5s"}},
        client_timeouts={"client_body": body_time},
    )
    cases = {one.case.clause: one.case for one in faults.fault_cases(plan, CLIENT)}
    status, time = stalled
    expect = cases["6.request.stalled"].expect
    assert expect.within_ms == time_window(time)
    assert (expect.status, expect.dropped) == ((504, False) if status == 504 else (None, True))
    slow = cases["6.request.upload"]
    assert slow.expect.status == 504
    assert slow.send is not None
    assert sum(part for part in slow.send if isinstance(part, float)) > int(request_time[0])
    assert cases["6.idle.tunnel"].params["within_ms"] == time_window(5000), "a WebSocket is no request"
    assert ("6.client.body" in cases) == (status == 408), "else the whole request's time is over first"


def test_tries_end_with_the_time_of_their_request() -> None:
    times = {"request": "2s", "response": "1500ms", "connect": "1500ms", "idle": "5s"}
    retries = {"max": 1, "on": ["connect_failure", "timeout"]}
    plan = plan_of({"name": "all", "forward": "a", "timeouts": times, "retries": retries})
    cases = {one.case.clause: one for one in faults.fault_cases(plan, CLIENT) if one.case.request.method == "GET"}
    assert cases["6.request.head"].case.expect.within_ms == time_window(2000)
    assert (cases["6.request.connect"].case.expect.fault, cases["6.request.connect"].phase) == (504, Phase.DROPPED)
    assert not {"6.response", "6.retries.timeout", "6.connect"} & cases.keys()


def moved(pools: dict[str, Any] | None = None, **listener: Any) -> str:
    made = {"a": {"endpoints": [{"address": "10.0.0.1:80"}]}, "b": {"endpoints": [{"address": "10.0.0.2:80"}]}}
    listeners = {"web": {"port": 8080, **listener}}
    routes = ({"name": "b", "match": [{"path": {"prefix": "/b"}}], "forward": "b"}, {"name": "a", "forward": "a"})
    return why_moved(plan_of(*routes, listeners=listeners, pools=made | (pools or {})))


@pytest.mark.parametrize(
    ("why", "pool", "listener"),
    [
        ("", {}, {}),
        ("", {"endpoints": [{"address": "10.0.0.1:81"}]}, {"address": "192.0.2.1"}),
        ("", {"endpoints": [{"address": "10.0.0.3:80"}], "health": {"active": {"port": 81}}}, {"address": "::"}),
        ("listeners.web is on loopback", {}, {"address": "127.0.0.1"}),
        ("listeners.web has an IPv6 address", {}, {"address": "2001:db8::1"}),
        ("pools.b.endpoints[0] is on loopback", {"endpoints": [{"address": "127.0.0.1:80"}]}, {}),
        ("pools.b.endpoints[1] is a name", {"endpoints": [{"address": "10.0.0.3:80"}, {"address": "web-1:80"}]}, {}),
        (
            "pools.a.endpoints[0] and pools.b.endpoints[0] share port 80 of 10.0.0.1",
            {"endpoints": [{"address": "10.0.0.1:80"}]},
            {},
        ),
        (
            "pools.b.endpoints[0] and pools.b.endpoints[1] share port 9000 of 10.0.0.3",
            {
                "endpoints": [{"address": "10.0.0.3:80"}, {"address": "10.0.0.3:81"}],
                "health": {"active": {"path": "/", "port": 9000}},
            },
            {},
        ),
        (
            "the checks of pools.b expect another status than 200",
            {"endpoints": [{"address": "10.0.0.3:80"}], "health": {"active": {"path": "/", "expect": [204]}}},
            {},
        ),
    ],
)
def test_addresses_are_kept_where_stand_ins_can_have_them(
    why: str, pool: dict[str, Any], listener: dict[str, Any]
) -> None:
    found = moved({"b": pool} if pool else None, **listener)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_an_endpoint_that_is_checked_elsewhere_has_a_stand_in_there() -> None:
    checked = {"endpoints": [{"address": "10.0.0.1:80"}], "health": {"active": {"path": "/up", "port": 9000}}}
    plan = plan_of({"name": "all", "forward": "a"}, pools={"a": checked})
    assert [(x.name, x.pool, x.port) for x in stand_ins(plan, Path("/"))] == [
        ("a-0", "a", 80),
        ("a-0-check", "a", 9000),
    ]
    (order,) = move_to_loopback([Job("nginx", "1", Binary(Path("/x"), "1"), plan, ())])
    assert [x.name for x in stand_ins(order.plan, Path("/"))] == ["a-0"], "checked where it serves"


def test_on_loopback_no_address_is_asked_of_this_host() -> None:
    listeners = {"web": {"port": 80, "address": "192.0.2.1"}, "all": {"port": 81, "address": "::"}}
    plan = plan_of({"name": "all", "forward": "a"}, listeners=listeners)
    (order,) = move_to_loopback([Job("nginx", "1", Binary(Path("/x"), "1"), plan, ())])
    assert [x.address for x in order.plan.listeners] == ["127.0.0.1", "::"]


def test_what_both_files_begin_and_end_with_is_not_compared_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """difflib takes time in the square of how often a line repeats."""
    handed: list[int] = []

    class Counting(difflib.SequenceMatcher[str]):
        def __init__(self, isjunk: None, a: list[str], b: list[str], autojunk: bool) -> None:
            handed.append(len(a) + len(b))
            super().__init__(isjunk, a, b, autojunk)

    monkeypatch.setattr(edited_files.difflib, "SequenceMatcher", Counting)
    lines = ["location /n {", "proxy_read_timeout 60s;", "}"]
    text = "\n".join("\n".join(lines).replace("/n", f"/{n}") for n in range(2000)) + "\n"
    real, short = rendered(text), rendered(text.replace("60s", "6s"))
    mine = rendered(text.replace("60s;", "30s;", 1200).replace("30s;", "60s;", 1199))
    assert edited_files.with_verified_times(real, real, short)["x.conf"] == short["x.conf"]
    changed = edited_files.with_verified_times(mine, real, short)["x.conf"].splitlines()
    assert [line for line in changed if "timeout" in line and "6s" not in line] == ["proxy_read_timeout 3s;"]
    assert edited_files.user_edits(mine, real) == ("x.conf:3599: proxy_read_timeout 30s;",)
    assert max(handed) == 2


@pytest.mark.parametrize(
    ("rate", "key", "client", "tried"),
    [
        ("10/s", "client_ip", "127.0.0.1", True),
        ("30/m", "client_ip", "127.0.0.1", False),
        ("30/m", "client_ip", CLIENT, True),
        ("30/m", "route", CLIENT, False),
        ("30/m", {"header": "x-key"}, "127.0.0.1", True),
    ],
)
def test_a_rate_is_tried_where_no_other_case_has_used_it_up(rate: str, key: Any, client: str, tried: bool) -> None:
    plan = plan_of({"name": "all", "forward": "a", "rate_limit": {"rate": rate, "burst": 12, "key": key}})
    assert any(one.case.clause == "5.rate" for one in faults.fault_cases(plan, client)) is tried


@pytest.mark.parametrize("protocol", ["http1", "http2"])
def test_faults_of_a_route_with_a_rate_by_client_do_not_use_it_up(protocol: str) -> None:
    pools = {"a": {"endpoints": [{"address": "10.0.0.1:80"}], "protocol": protocol}}
    rate = {"rate": "30/m", "burst": 12, "key": "client_ip"}
    plan = plan_of({"name": "all", "forward": "a", "rate_limit": rate}, pools=pools)
    asked = [x.case.request for x in faults.fault_cases(plan, CLIENT) if x.phase in (Phase.REFUSED, Phase.DROPPED)]
    assert len(asked) > 3
    assert len({one.client for one in asked}) == len(asked)


@pytest.mark.parametrize(("states", "code"), [(("refused",), 3), (("refused", "pass"), 0), ((), 0)])
def test_a_verification_in_which_every_case_is_refused_is_not_green(states: tuple[str, ...], code: int) -> None:
    results = tuple(Result("nginx", "topology", f"c/{n}", "c", CaseState(x)) for n, x in enumerate(states))
    report = Report("shop", results, (), (), Scale(1, ()), "", 1.0)
    assert (report.exit_code, report.green) == (code, code == 0)


def test_a_time_that_is_the_engines_own_gets_a_line_of_its_own() -> None:
    def files(text: str) -> Rendered:
        return Rendered("x", "1", (RenderedFile("x.conf", text),), ())

    real, verified = files("a: 3s\nb: c\n"), files("a: 1s\ndrain: 0.2s\nb: c\n")
    assert [(each.line, each.verified) for each in edited_files.line_changes(real, verified)] == [
        (1, "a: 1s\ndrain: 0.2s")
    ]
    mine = files("a: 6s\nb: d\n")
    assert edited_files.with_verified_times(real, real, verified)["x.conf"] == verified["x.conf"]
    assert edited_files.with_verified_times(mine, real, verified)["x.conf"] == "a: 2s\nb: d\n"
    with pytest.raises(ValueError, match=r"x\.conf"):
        edited_files.line_changes(real, files("a: 1s\ndrain\nb: c\n"))
