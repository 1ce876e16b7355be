"""A topology becomes a plan with every name resolved and every default written out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.diagnostics import LbgenError, Severity
from lbgen.plan.conditions import Exact, Header, Present
from lbgen.plan.features import all_features, features_of_fields
from lbgen.plan.model import (
    Balance,
    ClientTimeouts,
    ContainerLimits,
    Endpoint,
    Forward,
    HeaderEdits,
    HostPattern,
    Mode,
    Plan,
    Protocol,
    Redirect,
    Respond,
    Rewrite,
    Timeouts,
)
from lbgen.plan.path_conditions import RegexPath
from lbgen.plan.policy import Buffering, Limits
from lbgen.plan.resolve import findings
from lbgen.spec.placeholders import NAMES
from tests.support.plans import every_match

POOLS = {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}, "two": {"endpoints": [{"address": "10.0.0.2:80"}]}}


def topology(*routes: dict[str, Any], **more: Any) -> lbgen.Topology:
    """One listener `web`, pools `app` and `two`."""
    data: dict[str, Any] = {"version": 1, "name": "t", "listeners": {"web": {"port": 8080}}, "pools": POOLS}
    return lbgen.load({**data, "routes": list(routes), **more})


def plan_of(*routes: dict[str, Any], **more: Any) -> Plan:
    return lbgen.plan(topology(*routes, **more))


ALL = {"name": "all", "forward": "app"}
UNBOUNDED = ("LB265", "LB266")  # advice that is not what these topologies are about


def test_defaults_are_written_out() -> None:
    plan = plan_of(ALL)
    (web,) = plan.listeners
    assert (web.address, web.port, web.mode, web.protocol) == ("0.0.0.0", 8080, Mode.L7, Protocol.TCP)  # noqa: S104
    assert (web.forwarded_headers, web.request_id, web.trusted_proxies) == (True, True, ())
    (pool,) = plan.pools
    assert (pool.name, pool.balance, pool.keepalive, pool.keepalive_idle) == ("app", Balance.ROUND_ROBIN, 64, 4_000)
    assert pool.endpoints == (Endpoint("10.0.0.1", 80, 1, "pools.app.endpoints[0]", is_ip=True),)
    action = plan.route("all").action
    assert isinstance(action, Forward)
    assert action.timeouts == Timeouts(5_000, 60_000, 60_000)
    assert [(t.pool, t.weight, t.field) for t in action.targets] == [("app", 1, "routes[0].forward[0]")]
    (table,) = web.hosts
    assert [(r.id, r.rank, r.match.covers_all) for r in table.rules] == [("all.0", 0, True)]


def test_times_come_from_the_route_then_the_topology_then_the_profile() -> None:
    route = {**ALL, "timeouts": {"connect": "1s"}}
    action = plan_of(route, timeouts={"connect": "2s", "response": "3s"}, profile="low-latency").route("all").action
    assert isinstance(action, Forward)
    assert action.timeouts == Timeouts(1_000, 3_000, 3_000), "idle is response where none is said"


def test_client_times_come_from_the_listener_then_the_topology() -> None:
    listeners = {"web": {"port": 1, "timeouts": {"client_header": "0s"}}}
    times = plan_of(ALL, listeners=listeners, client_timeouts={"client_body": "3s"}).listeners[0].timeouts
    assert (times.header, times.body, times.keepalive) == (0, 3_000, 75_000)


def test_a_route_is_a_rule_per_match_and_host() -> None:
    match = [{"path": {"prefix": "/api/"}}, {"methods": ["GET"], "headers": {"X-B": "1", "x-a": {"present": True}}}]
    plan = plan_of({"name": "r", "hosts": ["A.test", "*.b.test"], "match": match, "forward": "app"})
    rules = {rule.id: rule for table in plan.listeners[0].hosts for rule in table.rules}
    assert {i: (str(r.host), r.match.path.value, r.field) for i, r in rules.items()} == {
        "r.0": ("a.test", "/api", "routes[0].match[0]"),
        "r.1": ("*.b.test", "/api", "routes[0].match[0]"),
        "r.2": ("a.test", "/", "routes[0].match[1]"),
        "r.3": ("*.b.test", "/", "routes[0].match[1]"),
    }
    assert [(h.subject.name, type(h.operator)) for h in rules["r.2"].match.on(Header)] == [
        ("x-a", Present),
        ("x-b", Exact),
    ]
    assert [str(t.host) for t in plan.listeners[0].hosts] == ["a.test", "*.b.test", "None"]


def test_listeners_see_their_routes_only() -> None:
    listeners = {"web": {"port": 1}, "inner": {"port": 2}, "db": {"port": 3, "mode": "l4"}}
    plan = plan_of(
        {"name": "here", "listeners": ["inner"], "match": [{"path": {"exact": "/x"}}], "forward": "app"},
        {**ALL, "forward": "app"},
        {"name": "db", "listeners": ["db"], "forward": "two"},
        listeners=listeners,
    )
    assert [r.id for r in plan.listener("web").hosts[-1].rules] == ["all.0"]
    assert [r.id for r in plan.listener("inner").hosts[-1].rules] == ["here.0", "all.0"]
    assert plan.listener("db").hosts == ()
    assert [r.id for r in plan.listener("db").l4_rules] == ["db.0"]


def test_actions() -> None:
    edits = {"set": {"X-A": "1"}, "add": {"x-b": "2"}, "remove": ["X-C"]}
    plan = plan_of(
        {"name": "a", "match": [{"path": {"prefix": "/a"}}], "redirect": {"prefix": "/b/", "status": 301}},
        {"name": "b", "match": [{"path": {"prefix": "/b"}}], "respond": {"status": 200, "body": "x"}},
        {"name": "c", "match": [{"path": {"prefix": "/c"}}], "respond": {"status": 204, "headers": {"X-A": "1"}}},
        {
            "name": "d",
            "forward": [{"pool": "app", "weight": 3}, {"pool": "two", "weight": 0, "request_headers": edits}],
            "rewrite": {"prefix": "/v1/", "host": "in.test"},
            "request_headers": edits,
        },
    )
    assert plan.route("a").action == Redirect(301, prefix="/b")
    assert plan.route("b").action == Respond(200, "x", (("content-type", "text/plain"),))
    assert plan.route("c").action == Respond(204, "", (("x-a", "1"),))
    route = plan.route("d")
    wanted = HeaderEdits((("x-a", "1"),), (("x-b", "2"),), ("x-c",))
    assert route.request_headers == wanted
    assert isinstance(route.action, Forward)
    assert route.action.rewrite == Rewrite(prefix="/v1", host="in.test")
    assert [(t.weight, t.request_headers) for t in route.action.targets] == [(3, HeaderEdits()), (0, wanted)]


def test_baseline_features_of_l7_listeners() -> None:
    redirect = {"name": "r", "redirect": {"host": "b.test"}}
    always = {
        "framing.malformed",
        "statuses.failures",
        "headers.hop_by_hop",
        "headers.connection_nominated",
        "route.websocket",
    }
    always |= {"headers_with_underscores.drop", "access_log", "listener.timeouts"}  # the last two are the profile's
    base = {"listener.l7", "framing", "statuses", "paths.strict", *always}
    assert all(use.default for feature in always for use in plan_of(redirect).uses_by_feature()[feature])
    written = plan_of(redirect, access_log="json").uses_by_feature()["access_log"]
    assert [(use.field, use.default) for use in written] == [("access_log", True)]  # the same, whoever wrote it
    assert base | {"route.redirect"} == plan_of(redirect).uses_by_feature().keys()
    forwarding = plan_of(ALL).uses_by_feature().keys()
    assert base | {"forwarded_headers", "request_id"} < forwarding
    database = {"name": "a", "listeners": ["db"], "forward": "app"}
    l4 = plan_of(database, listeners={"db": {"port": 1, "mode": "l4"}})
    defaults = {"timeouts.connect", "timeouts.idle", "access_log.l4"}
    assert l4.uses_by_feature().keys() == {"listener.l4.tcp", "route.forward", "pool.balance.round_robin", *defaults}
    assert all(use.default for feature in defaults for use in l4.uses_by_feature()[feature])
    asked = plan_of({**database, "timeouts": {"idle": "1h"}}, listeners={"db": {"port": 1, "mode": "l4"}})
    assert [use.default for use in asked.uses_by_feature()["timeouts.idle"]] == [False]


def test_connections_of_l4_listeners_over_tcp_are_logged_as_requests_are() -> None:
    listeners = {
        "db": {"port": 1, "mode": "l4"},
        "dns": {"port": 2, "mode": "l4", "protocol": "udp"},
    }
    routes = [{"name": name, "listeners": [name], "forward": "app"} for name in listeners]
    for level, is_logged in (("json", True), ("none", False)):
        plan = plan_of(*routes, listeners=listeners, access_log=level)
        assert [each.access_log for each in plan.listeners] == [is_logged, False]
        assert ("access_log.l4" in plan.uses_by_feature()) == is_logged
        assert "access_log" not in plan.uses_by_feature()


def test_minimal_sets_what_nothing_set_means() -> None:
    plan = plan_of(ALL, profile="minimal")
    action = plan.routes[0].action
    assert isinstance(action, Forward)
    assert (plan.listeners[0].timeouts, action.timeouts) == (ClientTimeouts(), Timeouts())
    assert plan.containers == ContainerLimits()


def test_minimal_asks_for_no_extra_headers() -> None:
    plan = plan_of(ALL, profile="minimal")
    assert not plan.uses_by_feature().keys() & {"forwarded_headers", "request_id"}
    assert (plan.listeners[0].forwarded_headers, plan.listeners[0].request_id) == (False, False)


FORWARD = {"forward": {"url": "https://login.test/verify"}}
JWT = {"jwt": {"issuer": "https://login.test", "audience": ["shop"], "jwks": "https://login.test/keys"}}
PLACEHOLDERS = (*(each for each in NAMES if each != "endpoint"), "header.x-a", "cookie.c", "1")
RICH: dict[str, Any] = {
    "version": 1,
    "name": "rich",
    "profile": "minimal",
    "metrics": {"port": 9100},
    "listeners": {
        "web": {
            "port": 1,
            "address": "::",
            "tls": {
                "certificates": [{"cert": "c", "key": "k", "names": ["a.example"]}],
                "client": {"ca": "ca"},
                "curves": ["P-256"],
            },
            "http2": True,
            "proxy_protocol": "accept",
            "trusted_proxies": ["10.0.0.0/8"],
            "client_ip": {"header": "CF-Connecting-IP"},
            "max_connections": 9,
            "paths": {"allow": ["empty_segments"]},
            "access": {"deny": ["10.0.0.0/8"]},
            "limits": {"headers": "16KiB"},
            "timeouts": {"client_header": "1s"},
        },
        "loose": {"port": 2, "paths": "normalize", "headers_with_underscores": "pass"},
        "raw": {
            "port": 3,
            "paths": "verbatim",
            "trusted_proxies": ["10.0.0.0/8"],
            "client_ip": {"header": "Forwarded"},
        },
        "edge": {"port": 4, "mode": "l4", "tls": {"mode": "passthrough"}},
        "dns": {"port": 5, "mode": "l4", "protocol": "udp"},
        "db": {"port": 6, "mode": "l4", "max_connections": 9},
    },
    "pools": {
        "a": {
            "balance": "least_connections",
            "endpoints": [{"address": "10.0.0.1:1", "weight": 2}, {"address": "10.0.0.2:1"}],
            "health": {"active": {"path": "/"}, "passive": {"failures": 1, "eject_for": "1s"}},
            "connections": {
                "keepalive": 1,
                "keepalive_idle": "1s",
                "max_per_endpoint": 1,
                "queue": {"size": 1, "timeout": "1s"},
            },
            "sticky": {"cookie": "LB"},
            "tls": {"verify": False},
            "protocol": "http2",
            "slow_start": "1s",
        },
        "b": {
            "balance": "source_hash",
            "endpoints": [
                {"address": "name:1", "weight": 2},
                {"address": "[::1]:1"},
                {"address": "x:1", "backup": True},
            ],
            "protocol": "grpc",
        },
        "c": {"balance": {"hash": {"header": "x"}}, "endpoints": [{"address": "a:1"}, {"address": "b:1", "weight": 0}]},
        "d": {"balance": "random", "endpoints": [{"address": "a:1"}], "proxy_protocol": "v2"},
        "e": {"endpoints": [{"address": "a:1"}], "proxy_protocol": "v1"},
        "g": {"endpoints": [{"address": "a:2"}]},
        "unused": {"endpoints": [{"address": "a:1"}]},
    },
    "routes": [
        {
            "name": "values",
            "hosts": ["values.test"],
            "match": [{"path": {"regex": "/v/([a-z]+)"}}],
            "forward": "a",
            "request_headers": {"set": {f"x-{n}": f"{{{each}}}" for n, each in enumerate(PLACEHOLDERS)}},
            "response_headers": {"set": {"x-endpoint": "{endpoint}"}},
        },
        {
            "name": "a",
            "hosts": ["a.test", "*.a.test"],
            "priority": 1,
            "match": [each for each in every_match() if "regex" not in each["path"]],
            "forward": [{"pool": "a", "request_headers": {"set": {"x": "1"}}}, {"pool": "b"}],
            "rewrite": {"prefix": "/x", "host": "h"},
            "timeouts": {"connect": "1s", "response": "1s", "idle": "1s", "request": "1s"},
            "retries": {"max": 1, "on": ["reset"], "budget": "20%"},
            "rate_limit": {"rate": "1/s", "key": "client_ip"},
            "concurrency": {"max": 1, "key": "route"},
            "max_body": "1MiB",
            "buffering": {"request": True},
            "request_headers": {"set": {"a": "1"}, "add": {"b": "1"}, "remove": ["c"]},
            "response_headers": {"set": {"a": "1"}, "add": {"b": "1"}, "remove": ["c"]},
            "mirror": {"pool": "c"},
            "cors": {"origins": ["*"]},
            "compression": {"types": ["text/html"]},
            "access": {"allow": ["10.0.0.0/8"]},
            "auth": {"basic": {"users": str(Path(__file__).parent / "users.htpasswd")}},
        },
        {"name": "b", "match": [{"path": {"regex": "/r"}}], "forward": "d", "rewrite": {"path": "/"}, "auth": FORWARD},
        {"name": "c", "match": [{"path": {"exact": "/c"}}], "redirect": {"host": "z.test"}, "auth": JWT},
        {"name": "d", "match": [{"path": {"exact": "/d"}}], "respond": {"status": 200}},
        {"name": "e", "listeners": ["edge"], "hosts": ["a.test"], "sources": ["10.0.0.0/8"], "forward": "e"},
        {"name": "f", "listeners": ["dns", "db"], "forward": "g"},
    ],
    "forwarded_headers": {"real_ip": True, "forwarded": True},
    "request_id": True,
    "access_log": "json",
    "accept": {"all": ["framing", "all"]},
    "resolvers": ["10.0.0.2"],
    "engines": {"nginx": {"version": "1.22", "http": "auth_basic x;"}, "nftables": {"forwarding": "direct"}},
}


def test_every_feature_can_be_asked_for() -> None:
    """Those of fields that are set need no list: `test_features.py`."""
    plan = lbgen.plan(lbgen.load(RICH))
    assert set(all_features()) - features_of_fields() <= plan.uses_by_feature().keys()
    for use in plan.uses:
        assert use.field
    assert plan.accept == ("framing", "all")
    assert plan.resolvers == ("10.0.0.2",)
    assert plan.options("nginx").version == "1.22"
    assert [pool.name for pool in plan.pools] == ["a", "b", "c", "d", "e", "g", "login.test-443"]
    assert len(set(plan.uses)) == len(plan.uses)


def test_underscores_are_dropped_unless_the_listener_or_else_the_topology_says() -> None:
    assert [x.underscores for x in plan_of(ALL).listeners] == [False]
    listeners = {"a": {"port": 1}, "b": {"port": 2, "headers_with_underscores": "drop"}}
    plan = plan_of(ALL, listeners=listeners, headers_with_underscores="pass")
    assert [x.underscores for x in plan.listeners] == [True, False]
    assert [use.field for use in plan.uses_by_feature()["headers_with_underscores.pass"]] == [
        "headers_with_underscores"
    ]
    dropping = plan_of(ALL, listeners=listeners | {"a": {"port": 1, "headers_with_underscores": "pass"}})
    assert [use.field for use in dropping.uses_by_feature()["headers_with_underscores.pass"]] == [
        "listeners.a.headers_with_underscores"
    ]
    assert [(use.field, use.default) for use in dropping.uses_by_feature()["headers_with_underscores.drop"]] == [
        ("listeners.b", True)
    ]


def test_places(tmp_path: Any) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        "version: 1\nname: t\nlisteners: { web: { port: 8080 } }\npools:\n  app:\n    endpoints:\n"
        '      - { address: "web-1:80", weight: 2 }\nroutes:\n  - name: all\n    forward: app\n'
    )
    plan = lbgen.plan(lbgen.load(file))
    spans = dict(plan.spans)
    assert (spans["routes[0]"].line, spans["routes[0].forward"].line, spans["pools.app.endpoints[0]"].line) == (
        9,
        10,
        7,
    )
    (use,) = plan.uses_by_feature()["pool.weights"]
    assert (use.field, dict(plan.use_spans)[use.field].line) == ("pools.app.endpoints[0].weight", 7)
    (use,) = plan.uses_by_feature()["request_id"]
    assert dict(plan.use_spans)[use.field].file.endswith("production.yaml")


def test_errors_stop_the_plan_and_advice_does_not() -> None:
    with pytest.raises(LbgenError) as caught:
        plan_of({"name": "a", "forward": "ap"}, {"name": "b", "listeners": ["x"], "forward": "app"})
    assert [d.code for d in caught.value.diagnostics] == ["LB201", "LB201"]
    loaded = topology(ALL)
    advice = findings(loaded)
    assert [d.code for d in advice] == ["LB251", "LB264", "LB266"]
    assert {d.severity for d in advice} == {Severity.ADVICE}
    assert [d.code for d in findings(loaded, ignore=("LB251", "LB264"))] == ["LB266"]
    assert [d.code for d in findings(topology(ALL, ignore=["LB266"]))] == ["LB251", "LB264"]
    assert lbgen.plan(loaded).route("all")


def test_certificates_must_exist_only_where_files_are_asked_for() -> None:
    listeners = {
        "web": {
            "port": 1,
            "tls": {"certificates": [{"cert": "/nowhere/c", "key": "/nowhere/k", "names": ["a.example"]}]},
        }
    }
    loaded = topology({**ALL, "forward": ["app", "two"]}, listeners=listeners)
    assert findings(loaded, ignore=UNBOUNDED) == ()
    assert [d.code for d in findings(loaded, ignore=UNBOUNDED, files=True)] == ["LB211", "LB211"]


@pytest.mark.parametrize(
    ("earlier", "later", "code"),
    [
        ({"path": {"prefix": "/a"}}, {"path": {"exact": "/a/b"}}, "LB203"),
        ({"path": {"prefix": "/a"}}, {"path": {"regex": "/a/[0-9]+"}}, "LB203"),
        ({"path": {"prefix": "/a"}}, {"path": {"regex": "/a[0-9]+"}}, None),
        ({"path": {"prefix": "/a"}}, {"path": {"prefix": "/ab"}}, None),
        ({"path": {"regex": "/[a-z]+"}}, {"path": {"exact": "/abc"}}, "LB203"),
        ({"path": {"regex": "/[a-z]+"}}, {"path": {"prefix": "/abc"}}, None),
        ({"path": {"regex": "/.*"}}, {"path": {"prefix": "/abc"}}, "LB203"),
        ({"path": {"regex": "/a%C3.*"}}, {"path": {"exact": "/a%C3%A9"}}, None),
        ({"path": {"regex": "/a+"}}, {"path": {"regex": "/a+"}, "methods": ["GET"]}, "LB203"),
        ({"path": {"regex": "/a+"}}, {"path": {"regex": "/aa+"}}, None),
        ({"methods": ["GET", "PUT"]}, {"methods": ["PUT"]}, "LB203"),
        ({"methods": ["GET"]}, {"methods": ["GET", "HEAD"]}, None),
        ({"methods": ["GET"]}, {"path": {"exact": "/a"}}, None),
        ({"headers": {"a": {"present": True}}}, {"headers": {"A": "1"}}, "LB203"),
        ({"headers": {"a": {"regex": "[0-9]"}}}, {"headers": {"A": "1", "b": "2"}}, "LB203"),
        ({"headers": {"a": {"regex": "[0-9]"}}}, {"headers": {"A": "12"}}, None),
        ({"headers": {"a": {"present": True}}}, {"headers": {"a": {"regex": ".*"}}}, None),
        ({"headers": {"a": "1"}}, {"query": {"a": "1"}}, None),
        ({"cookies": {"a": "1"}}, {"cookies": {"a": "1"}}, "LB204"),
        ({"cookies": {"a": {"regex": "x+"}}}, {"cookies": {"a": {"regex": "x+"}}, "methods": ["GET"]}, "LB203"),
    ],
)
def test_what_covers_what(earlier: dict[str, Any], later: dict[str, Any], code: str | None) -> None:
    loaded = topology(
        {"name": "first", "match": [earlier], "priority": 1, "forward": "app"},
        {"name": "second", "match": [later], "forward": "two"},
    )
    assert [d.code for d in findings(loaded, ignore=UNBOUNDED)] == ([code] if code else [])


@pytest.mark.parametrize(
    ("earlier", "later", "found"),
    [
        (None, ["a.test"], True),
        (["*.test"], ["a.test"], True),
        (["*.test"], ["*.a.test"], True),
        (["*.a.test"], ["a.test"], False),
        (["a.test"], None, False),
    ],
)
def test_hosts_that_cover_hosts(earlier: list[str] | None, later: list[str] | None, found: bool) -> None:
    first = {"name": "first", "priority": 1, "forward": "app", **({"hosts": earlier} if earlier else {})}
    second = {"name": "second", "forward": "two", **({"hosts": later} if later else {})}
    assert [d.code for d in findings(topology(first, second), ignore=UNBOUNDED)] == (["LB203"] if found else [])


def test_covered_on_each_listener_by_another() -> None:
    listeners = {"one": {"port": 1}, "two": {"port": 2}}
    walls = [{"name": n, "listeners": [n], "priority": 1, "forward": "app"} for n in listeners]
    loaded = topology(*walls, {"name": "last", "match": [{"methods": ["GET"]}], "forward": "two"}, listeners=listeners)
    assert [d.code for d in findings(loaded, ignore=UNBOUNDED)] == ["LB203"]


def test_hosts_are_patterns() -> None:
    plan = plan_of({"name": "a", "hosts": ["*.a.test"], "match": [{"path": {"regex": "/x"}}], "forward": "app"})
    (rule,) = plan.listeners[0].hosts[0].rules
    assert rule.host == HostPattern("a.test", wildcard=True)
    assert isinstance(rule.match.path, RegexPath)


def test_objects_are_found_by_name() -> None:
    plan = plan_of({"name": "a", "forward": "app"})
    assert plan.route("a") is plan.routes[0]
    assert plan.pool("app") is plan.pools[0]
    assert plan.listener("web") is plan.listeners[0]
    for look in (plan.route, plan.pool, plan.listener):
        with pytest.raises(KeyError):
            look("none")
    moved = replace(plan, listeners=(replace(plan.listeners[0], port=1),))
    assert moved.listener("web").port == 1
    assert moved != plan
    assert replace(plan) == plan
    assert hash(replace(plan)) == hash(plan)


def test_defaults_for_all_listeners_and_routes_hold_where_nothing_nearer_is_said() -> None:
    routes = (
        {"name": "own", "match": [{"path": {"prefix": "/o"}}], "forward": "app", "max_body": "1KiB",
         "buffering": {"response": False}, "response_headers": {"set": {"x-a": "own"}, "remove": ["x-b"]}},
        {"name": "moved", "match": [{"path": {"prefix": "/m"}}], "redirect": {"path": "/new"}},
        ALL,
    )  # fmt: skip
    found = plan_of(
        *routes,
        limits={"headers": "16KiB", "target": "4KiB"},
        max_body="1MiB",
        buffering={"request": True, "response": True},
        response_headers={"set": {"x-a": "all", "x-b": "all", "x-c": "all"}},
        listeners={"web": {"port": 1, "limits": {"target": "1KiB"}}, "inner": {"port": 2}},
    )
    assert found.listener("web").limits == Limits(16 * 1024, 1024)
    assert found.listener("inner").limits == Limits(16 * 1024, 4 * 1024)
    own, every = found.route("own"), found.route("all")
    assert (own.max_body, every.max_body, found.route("moved").max_body) == (1024, 1024 * 1024, None)
    assert own.response_headers == HeaderEdits((("x-c", "all"), ("x-a", "own")), (), ("x-b",))
    assert found.route("moved").response_headers.set == (("x-a", "all"), ("x-b", "all"), ("x-c", "all"))
    assert isinstance(own.action, Forward)
    assert own.action.buffering == Buffering(request=True, response=False)
    named = {(use.feature, use.field) for use in found.uses}
    wanted = {
        ("listener.limits", "limits"),
        ("route.max_body", "max_body"),
        ("route.buffering", "buffering"),
        ("route.response_headers.set", "response_headers.set"),
    }
    assert wanted <= named


def test_a_range_of_ports_is_a_listener_for_each():
    data = {
        "version": 1,
        "name": "ranges",
        "listeners": {"db": {"ports": "8000-8002", "mode": "l4"}, "web": {"port": 80, "mode": "l4"}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "db", "listeners": ["db", "web"], "forward": "app"}],
    }
    found = lbgen.plan(lbgen.load(data)).listeners
    assert [(x.name, x.port) for x in found] == [("db-8000", 8000), ("db-8001", 8001), ("db-8002", 8002), ("web", 80)]
    assert {x.field for x in found[:3]} == {"listeners.db"}
    assert all([rule.route for rule in x.l4_rules] == ["db"] for x in found[:3])
    again = lbgen.load(lbgen.load(data).model.model_dump(exclude_unset=True, mode="json"))
    assert lbgen.plan(again).listeners == found
