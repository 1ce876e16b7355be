"""What Traefik's files say: literal texts, names that hash well, shares, rules by table."""

from __future__ import annotations

from typing import Any

import pytest

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import ENGINE, names
from lbgen.engines.traefik.plugin_config import build_plugin_config
from lbgen.engines.traefik.quote import quote_data, quote_text
from lbgen.engines.traefik.routes import build_route
from lbgen.engines.traefik.run import judge
from lbgen.plan.model import Balance, Forward, HeaderEdits, HostPattern, Plan, Pool, Respond, Rewrite, Target, Timeouts
from lbgen.plan.policy import (
    Access,
    Buffering,
    Cors,
    Key,
    KeyKind,
    Mirror,
    Origin,
    RateLimit,
    Retries,
    RetryCause,
    Sticky,
)
from lbgen.plan.request import AUTHORITY
from lbgen.records import replace
from lbgen.resources import folder
from tests.support import plans
from tests.support.plans import by_match, endpoint, prefix, route

NO = HeaderEdits()


def pool(name: str, balance: Balance = Balance.ROUND_ROBIN, weights: tuple[int, ...] = (1,), host: str = "") -> Pool:
    ends = (endpoint(host or "127.0.0.1", 9000 + i, w) for i, w in enumerate(weights))
    return plans.pool(name, *ends, balance=balance)


def plan(actions: dict[str, Forward | Respond], pools: tuple[Pool, ...], host: HostPattern | None = None) -> Plan:
    rules = ((prefix(f"/{name}"), route(name, action, i), host) for i, (name, action) in enumerate(actions.items()))
    return by_match(rules, pools)


def forward(*targets: tuple[str, int], edits: HeaderEdits = NO) -> Forward:
    return Forward(tuple(Target(p, w, edits, "t") for p, w in targets), Timeouts(1000, 2000, 3000))


def edge_config(made: Plan) -> dict[str, Any]:
    rules = [rule for table in made.listeners[0].hosts for rule in table.rules]
    return build_plugin_config(made, made.listeners[0], rules)


def rendered(made: Plan) -> dict[str, str]:
    return {file.name: file.text for file in ENGINE.render(made, "3.7")}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("{{ env }}", "{{`{{`}} env }}"), ("{ {", "{ {"), ("{{{", "{{`{{`}}{"), ("`$%", "`$%"), ("", "")],
)
def test_template_actions_become_literals(text, wanted):
    assert quote_text(text) == wanted


def test_escaping_reaches_keys_lists_and_keeps_marks():
    found = quote_data(Tagged("routes[0]", {"{{a": ["{{", 1, {"b": "{{"}]}))
    assert isinstance(found, Tagged)
    assert found.field == "routes[0]"
    assert found == {"{{`{{`}}a": ["{{`{{`}}", 1, {"b": "{{`{{`}}"}]}


def test_the_static_file_is_no_template_and_says_everything_that_has_a_default():
    text = rendered(plan({"a": Respond(200, "ok", ())}, ()))["traefik.yaml"]
    for wanted in ("checkNewVersion: false", "sendAnonymousUsage: false", "sanitizePath: false", "allowEncodedSlash"):
        assert wanted in text
    assert "api:" not in text


def test_an_admin_port_brings_the_api_on_loopback_only():
    files = rendered(replace(plan({"a": Respond(200, "ok", ())}, ()), admin_port=9901))
    assert 'address: "127.0.0.1:9901"' in files["traefik.yaml"]
    assert "api@internal" in files["dynamic/admin.yaml"]


def test_a_listener_that_forwards_nothing_still_has_a_service():
    files = rendered(plan({"a": Respond(200, "ok", ())}, ()))
    assert "noop@internal" in files["dynamic/edge-web.yaml"]
    assert "pools:" not in files["dynamic/edge-web.yaml"]


def test_names_stay_apart_without_dots():
    assert names.escape("a.b") != names.escape("ab")
    assert "." not in names.escape("a.b")


def test_targets_name_their_pool_and_keep_their_own_headers():
    edits = HeaderEdits(set=(("x-a", "1"),))
    made = plan({"s": forward(("q", 1), ("p", 3), edits=edits)}, (pool("p"), pool("q"), pool("unused")))
    assert [each["name"] for each in edge_config(made)["pools"]] == ["p", "q"]
    targets = build_route(made.routes[0])["targets"]
    assert [(each["pool"], each["weight"]) for each in targets] == [("q", 1), ("p", 3)]
    assert targets[0]["request"] == {"set": [{"name": "x-a", "value": "1"}]}


def test_policies_reach_the_plugin_in_its_words():
    key = Key(KeyKind.HEADER, "x-user")
    action = replace(
        forward(("p", 1)),
        retries=Retries(2, frozenset({RetryCause.RESET}), (503,), budget=12.5),
        mirrors=(Mirror("q", 33.33, "routes[0].mirror"),),
        buffering=Buffering(request=True),
    )
    made = plan({"s": action}, (pool("p"), pool("q")))
    route = replace(
        made.routes[0],
        rate_limit=RateLimit(100, 60, 5, key),
        max_body=0,
        access=Access(allow=(), deny=("10.0.0.0/8",)),
        cors=Cors((Origin("https", "a.test", 8443, wildcard=True),), ("GET",), (), (), credentials=False, max_age=None),
    )
    conf = build_route(route)
    assert conf["retries"] == {
        "max": 2, "connect": False, "reset": True, "timeout": False, "statuses": [503], "all": False, "budget": 1250,
    }  # fmt: skip
    assert conf["mirrors"] == [{"pool": "q", "percent": 3333}]
    assert conf["body"] == {"limited": True, "max": 0, "request": True}
    assert conf["rate"]["key"] == {"kind": "header", "name": "x-user"}
    assert conf["access"] == {"closed": True, "deny": ["10.0.0.0/8"]}
    assert conf["cors"]["origins"] == [{"scheme": "https://", "host": "a.test", "port": ":8443", "wildcard": True}]
    assert conf["cors"]["maxAge"] == -1


def test_a_sticky_cookie_is_the_contracts():
    named = tuple(replace(endpoint, cookie_value="feed") for endpoint in pool("p").endpoints)
    stuck = replace(pool("p"), sticky=Sticky("LB", 3600, secure=True), endpoints=named)
    made = plan({"s": forward(("p", 1))}, (stuck,))
    (conf,) = edge_config(made)["pools"]
    assert conf["sticky"] == {"cookie": "LB", "line": "; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure"}
    assert conf["endpoints"][0]["id"] == "feed"


def test_the_listener_watches_answers_by_the_shortest_idle_time_of_its_routes():
    slow = replace(forward(("p", 1)), timeouts=Timeouts(1000, 2000, 9000))
    endless = replace(forward(("p", 1)), timeouts=Timeouts(1000, 2000, 0))
    made = plan({"a": slow, "b": forward(("p", 1)), "c": endless}, (pool("p"),))
    assert edge_config(made)["idle"].value == 3000
    assert "idle" not in edge_config(plan({"c": endless}, (pool("p"),)))


def test_a_route_is_bare_where_its_listener_has_no_log():
    made = plan({"a": forward(("p", 1))}, (pool("p"),))
    listener = replace(made.listeners[0], access_log=False)
    assert "bare: true" in rendered(replace(made, listeners=(listener,)))["dynamic/edge-web.yaml"]
    listener = replace(listener, access_log=True)
    assert "bare" not in rendered(replace(made, listeners=(listener,)))["dynamic/edge-web.yaml"]


def test_a_route_is_bare_where_it_asks_for_nothing_but_a_pool():
    made = plan(
        {"a": forward(("p", 1), ("q", 1)), "b": replace(forward(("p", 1)), rewrite=Rewrite(path="/x"))},
        (pool("p"), pool("q")),
    )
    listener = replace(made.listeners[0], access_log=False)
    assert "bare" not in rendered(replace(made, listeners=(listener,)))["dynamic/edge-web.yaml"]


def test_names_are_looked_up_and_dns_servers_get_their_port():
    made = replace(plan({"s": forward(("p", 1))}, (pool("p", host="web.test"),)), resolvers=("10.0.0.1", "::1"))
    text = rendered(made)["dynamic/edge-web.yaml"]
    assert "lookup: true" in text
    assert '"10.0.0.1:53"' in text
    assert '"[::1]:53"' in text


def test_lines_know_the_field_they_came_from():
    made = plan({"a": forward(("p", 1))}, (pool("p"),))
    files = {file.name: file for file in ENGINE.render(made, "3.7")}
    origins = set(files["dynamic/edge-web.yaml"].origins)
    assert {"listeners.web", "routes[0]", "routes[0].match[0]", "pools.p.endpoints[0]"} <= origins


def test_the_same_plan_gives_the_same_files():
    made = plan({"a": forward(("p", 1), ("q", 2))}, (pool("p"), pool("q")))
    assert ENGINE.render(made, "3.7") == ENGINE.render(made, "3.7")


def test_judge_reads_the_log_and_the_api():
    log = "\x1b[90m2026-01-01T00:00:00Z\x1b[0m \x1b[31mERR\x1b[0m error=bad file\n2026-01-01T00:00:00Z INF fine\n"
    api = {"/api/http/routers": [{"name": "a@file", "status": "disabled", "error": ["no service"]}], "/x": None}
    assert judge(0, log, api) == (
        "ERR error=bad file",
        "/api/http/routers: a@file is disabled: no service",
        "/x: no list came back",
    )


def test_the_plugins_lines_are_access_records_and_others_are_not():
    line = '{"time": "t", "listener": "web", "route": "a", "status": 200, "request_id": ""}'
    assert ENGINE.access_record(line) == {"time": "t", "listener": "web", "route": "a", "status": 200, "request_id": ""}
    assert ENGINE.access_record("2026-01-01T00:00:00Z INF fine") is None
    assert ENGINE.access_record('{"level": "error"}') is None


def test_judge_is_content_with_a_stopped_healthy_instance():
    assert judge(-15, "", {"/api/http/routers": [{"name": "a", "status": "enabled"}]}) == ()
    assert judge(1, "", {}) == ("traefik ended with exit code 1",)


def test_the_plugin_judges_hosts_by_the_regex_of_the_oracle() -> None:
    target = (folder("templates") / "traefik" / "plugin" / "target.go").read_text(encoding="utf-8")
    assert f"var authority = regexp.MustCompile(`^(?:{AUTHORITY})$`)" in target
