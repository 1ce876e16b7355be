"""What Traefik's files say: literal texts, names that hash well, shares, rules by table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lbgen.engines.document import Tagged
from lbgen.engines.traefik import ENGINE, names
from lbgen.engines.traefik.edge import edge
from lbgen.engines.traefik.quote import escaped, literal
from lbgen.engines.traefik.run import judge
from lbgen.plan.model import (
    Balance,
    Endpoint,
    Forward,
    HeaderEdits,
    HostPattern,
    Listener,
    Match,
    Mode,
    PathKind,
    PathMatch,
    Plan,
    Pool,
    Protocol,
    Respond,
    Route,
    Target,
    Timeouts,
)
from lbgen.plan.precedence import Entry, host_tables, ranked

NO = HeaderEdits()


def pool(name: str, balance: Balance = Balance.ROUND_ROBIN, weights: tuple[int, ...] = (1,), host: str = "") -> Pool:
    endpoints = tuple(
        Endpoint(host or "127.0.0.1", 9000 + i, w, f"pools.{name}.endpoints[{i}]", is_ip=not host)
        for i, w in enumerate(weights)
    )
    return Pool(name, balance, endpoints, f"pools.{name}")


def plan(actions: dict[str, Forward | Respond], pools: tuple[Pool, ...], host: HostPattern | None = None) -> Plan:
    entries = [
        Entry(f"{name}.0", name, 0, host, Match(PathMatch(PathKind.PREFIX, f"/{name}")), f"routes[{i}].match[0]")
        for i, name in enumerate(actions)
    ]
    routes = tuple(Route(name, i, action, f"routes[{i}]") for i, (name, action) in enumerate(actions.items()))
    listener = Listener(
        "web", "127.0.0.1", 8080, Mode.L7, Protocol.TCP, "listeners.web", hosts=host_tables(ranked(entries))
    )
    return Plan("t", (listener,), pools, routes)


def forward(*targets: tuple[str, int], edits: HeaderEdits = NO) -> Forward:
    return Forward(tuple(Target(p, w, edits, "t") for p, w in targets), Timeouts(1000, 2000, 3000))


def rendered(made: Plan) -> dict[str, str]:
    return {file.name: file.text for file in ENGINE.render(made, "3.7")}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("{{ env }}", "{{`{{`}} env }}"), ("{ {", "{ {"), ("{{{", "{{`{{`}}{"), ("`$%", "`$%"), ("", "")],
)
def test_template_actions_become_literals(text, wanted):
    assert literal(text) == wanted


def test_escaping_reaches_keys_lists_and_keeps_marks():
    found = escaped(Tagged("routes[0]", {"{{a": ["{{", 1, {"b": "{{"}]}))
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
    assert "dynamic/pools.yaml" not in files


def test_endpoint_names_begin_with_what_tells_them_apart():
    """FNV-1a hardly mixes the last byte, and Traefik appends the name to the client's address."""
    hashed = pool("hashed", Balance.SOURCE_HASH, (1, 2))
    found = [names.endpoint(hashed, index) for index in range(2)]
    assert found == ["0-endpoint-hashed", "1-endpoint-hashed"]
    assert "highestRandomWeight" in rendered(plan({"a": forward(("hashed", 1))}, (hashed,)))["dynamic/pools.yaml"]


def test_names_stay_apart_without_dots():
    assert names.escaped("a.b") != names.escaped("ab")
    assert "." not in names.escaped("a.b")


def test_a_split_is_native_unless_a_target_has_headers_of_its_own():
    pools = (pool("p"), pool("q"))
    plain = rendered(plan({"s": forward(("p", 3), ("q", 1))}, pools))
    assert "split-s" in plain["dynamic/pools.yaml"]
    marked = forward(("p", 3), ("q", 1), edits=HeaderEdits(set=(("x-v", "2"),)))
    own = rendered(plan({"s": marked}, pools))
    assert "split-s" not in own["dynamic/pools.yaml"]
    assert own["dynamic/edge-web.yaml"].count('service: "pool-') == 4  # two targets, two child routers


def test_a_pool_without_a_working_endpoint_leads_nowhere():
    text = rendered(plan({"s": forward(("p", 1))}, (pool("p", weights=(0, 0)),)))["dynamic/edge-web.yaml"]
    assert 'service: ""' in text


def test_names_are_looked_up_and_dns_servers_get_their_port():
    made = replace(plan({"s": forward(("p", 1))}, (pool("p", host="web.test"),)), resolvers=("10.0.0.1", "::1"))
    text = rendered(made)["dynamic/pools.yaml"]
    assert "lookup: true" in text
    assert '"10.0.0.1:53"' in text
    assert '"[::1]:53"' in text


def test_rules_are_written_once_and_tables_name_them_by_index():
    made = plan({"a": forward(("p", 1)), "b": forward(("p", 1))}, (pool("p"),), HostPattern("x.test", wildcard=True))
    conf = edge(made, made.listeners[0])
    assert [rule["path"] for rule in conf["rules"]] == ["/a", "/b"]
    assert [table["host"] for table in conf["tables"]] == ["*.x.test", ""]


def test_lines_know_the_field_they_came_from():
    made = plan({"a": forward(("p", 1))}, (pool("p"),))
    files = {file.name: file for file in ENGINE.render(made, "3.7")}
    origins = {*files["dynamic/edge-web.yaml"].origins, *files["dynamic/pools.yaml"].origins}
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


def test_judge_is_content_with_a_stopped_healthy_instance():
    assert judge(-15, "", {"/api/http/routers": [{"name": "a", "status": "enabled"}]}) == ()
    assert judge(1, "", {}) == ("traefik ended with exit code 1",)
