"""Text for one engine alone: it takes effect where it was put, in that engine; places and data are checked."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.engines.api import engine, local_engines
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.check import check
from tests.support.engine_lists import L7_ENGINES

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]

ENVOY_FILTER = """
- name: own
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation
    mutations:
      response_mutations:
        - append: { header: { key: x-own, value: "yes" } }
"""
ENVOY_CLUSTER = "- { name: own, type: STATIC, connect_timeout: 1s, load_assignment: { cluster_name: own } }"
ENVOY_LISTENER = """
- name: own
  address: { socket_address: { address: 127.0.0.1, port_value: 29999 } }
  filter_chains:
    - filters:
        - name: echo
          typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo }
"""
# Per engine: texts that it takes, one of them such that each answer has the header x-own.
SHOWN = {
    "nginx": {
        "main": "worker_shutdown_timeout 30s;",
        "http": "log_format own $status;",
        "server": "add_header x-own yes always;\nadd_header x-both lines always;",
    },
    "haproxy": {
        "global": "tune.maxpollevents 100",
        "frontend": "http-after-response set-header x-own yes",
        "backend": "option abortonclose",
        "file": "backend own from http",
    },
    "envoy": {
        "bootstrap": "stats_flush_interval: 10s",
        "http_filters": ENVOY_FILTER,
        "clusters": ENVOY_CLUSTER,
        "listeners": ENVOY_LISTENER,
    },
    "traefik": {
        "static": "core: { defaultRuleSyntax: v3 }",
        "dynamic": ("http: { middlewares: { own: { headers: { customResponseHeaders: { x-own: 'yes' } } } } }"),
    },
    "nftables": {
        "table": "chain own {\n\ttype filter hook input priority 0; policy accept;\n}",
        "file": "table ip own { }",
    },
    "keepalived": {
        "global_defs": "process_names",
        "vrrp": "interface eth0",
        "file": "static_routes {\n}",
    },
}


def topology(texts: dict[str, dict[str, str]], port: int = 8080, mode: str = "l7") -> lbgen.Topology:
    data: dict[str, Any] = {
        "version": 1,
        "name": "verbatim",
        "profile": "minimal",
        "listeners": {"web": {"port": port, "mode": mode} | ({"address": "192.0.2.7"} if mode == "l4" else {})},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "all", "forward": "app"} | ({"listeners": ["web"]} if mode == "l4" else {})],
        "engines": texts,
    }
    return lbgen.load(data)


def test_all_places_are_tried() -> None:
    assert {name: set(SHOWN[name]) for name in SHOWN} == {
        name: {place for place, _ in engine(name).insertion_points} - {"stream"} for name in local_engines()
    }


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_the_engine_takes_them_and_explain_finds_them(name: str) -> None:
    plan = lbgen.plan(topology(SHOWN, mode="l7" if name in L7_ENGINES else "l4"))
    assert check(plan, name, accept=("engines.verbatim",)) == ()
    rendered = lbgen.render(plan, engine=name, accept=("engines.verbatim",))
    origins = {origin for file in rendered.files for origin in file.origins if origin.startswith("engines.")}
    scalars = {"engines.envoy.bootstrap"}  # a line of data that is no mapping has no mark
    assert origins | scalars == {f"engines.{name}.{place}" for place in SHOWN[name]} | scalars  # no other's
    own, *others = (x for x in rendered.verdicts if x.feature == "engines.verbatim")
    assert "not portable" in own.verdict.note
    assert all("what it adds, such as an access rule, is missing here" in x.verdict.note for x in others)


@pytest.mark.parametrize("name", sorted(set(L7_ENGINES) - {"traefik"}))
def test_what_they_say_happens(name: str) -> None:
    port = free_port("127.0.0.1", 10_980)
    with lbgen.up(topology({name: SHOWN[name]}, port), engine=name, runtime="local") as stack:
        assert httpx.get(stack.url("web")).headers["x-own"] == "yes"
    with lbgen.up(topology({}, port), engine=name, runtime="local") as stack:
        assert "x-own" not in httpx.get(stack.url("web")).headers


def test_a_router_of_ones_own_stands_beside_traefiks() -> None:
    port = free_port("127.0.0.1", 10_980)
    router = "own: { entryPoints: [web], rule: 'Header(`x-own`, `1`)', service: noop@internal, middlewares: [own] }"
    dynamic = SHOWN["traefik"]["dynamic"].replace("http: {", f"http: {{ routers: {{ {router} }},", 1)
    with lbgen.up(topology({"traefik": {"dynamic": dynamic}}, port), engine="traefik", runtime="local") as stack:
        for _ in range(2):
            assert httpx.get(stack.url("web"), headers={"x-own": "1"}).headers["x-own"] == "yes"
            assert httpx.get(stack.url("web")).status_code == 200


@pytest.mark.parametrize("name", ["haproxy", "envoy", "traefik"])
def test_other_engines_do_without_only_if_that_is_accepted(name: str) -> None:
    """The text may hold an access rule, without which a route is open."""
    guarded = topology({"nginx": {"server": "allow 192.0.2.0/24;\ndeny all;"}})
    with pytest.raises(LbgenError, match="this text is for nginx alone") as raised:
        lbgen.render(guarded, engine=name)
    assert [(x.code, x.field, x.accept) for x in raised.value.diagnostics] == [
        ("LB302", "engines.nginx.server", "engines.verbatim")
    ]
    rendered = lbgen.render(guarded, engine=name, accept=("engines.verbatim",))
    assert not any("deny all" in text for text in rendered.values())
    lbgen.render(guarded, engine="nginx")


@pytest.mark.parametrize("name", ["haproxy", "envoy", "traefik"])
def test_authentication_by_text_is_accepted_by_its_own_name(name: str) -> None:
    guarded = topology({"nginx": {"server": "auth_basic closed;\nauth_basic_user_file /dev/null;"}})
    with pytest.raises(LbgenError, match="LB236"):
        lbgen.render(guarded, engine="nginx")
    accepted = guarded.replace(accept={"nginx": ["engines.verbatim.auth"], name: ["engines.verbatim"]})
    lbgen.render(accepted, engine="nginx")
    with pytest.raises(LbgenError, match="auth_basic authenticates clients on nginx alone") as raised:
        lbgen.render(accepted, engine=name)
    assert [x.accept for x in raised.value.diagnostics] == ["engines.verbatim.auth"]
    lbgen.render(accepted, engine=name, accept=("engines.verbatim.auth",))


def test_text_for_the_engine_of_another_tier_is_not_missing() -> None:
    data: dict[str, Any] = {
        "version": 1,
        "name": "tiers",
        "profile": "minimal",
        "tiers": {"edge": {"engine": "haproxy"}, "web": {"engine": "nginx"}},
        "listeners": {"in": {"port": 8080, "tier": "edge"}, "inner": {"port": 8081, "tier": "web"}},
        "pools": {"to-web": {"tier": "web"}, "app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [
            {"name": "in", "listeners": ["in"], "forward": "to-web"},
            {"name": "all", "listeners": ["inner"], "forward": "app"},
        ],
        "engines": {"nginx": SHOWN["nginx"]},
    }
    edge, web = lbgen.tiers(lbgen.load(data))
    lbgen.render(edge.plan, engine="haproxy")
    assert any("x-own" in text for text in lbgen.render(web.plan, engine="nginx").values())
    del data["tiers"]["edge"]["engine"]
    with pytest.raises(LbgenError, match="this text is for nginx alone"):
        lbgen.render(lbgen.tiers(lbgen.load(data))[0].plan, engine="haproxy")


def test_filters_of_http_have_no_place_beside_l4_alone() -> None:
    with pytest.raises(LbgenError, match="has no place, as nothing of the topology needs it") as raised:
        lbgen.render(topology({"envoy": {"http_filters": ENVOY_FILTER}}, mode="l4"), engine="envoy")
    assert [each.code for each in raised.value.diagnostics] == ["LB304"]
    lbgen.render(topology({"envoy": {"clusters": ENVOY_CLUSTER}}, mode="l4"), engine="envoy")


@pytest.mark.parametrize(
    ("name", "place", "text", "said"),
    [
        ("nginx", "htp", "x;", r"no place 'htp'; it has main \(top level of nginx.conf\); http"),
        ("nginx", "stream", "x;", "no such place"),
        ("envoy", "clusters", "name: x", "has to be a YAML list of mappings"),
        ("envoy", "bootstrap", "admin: {}", "has admin, which lbgen writes itself"),
        ("envoy", "bootstrap", "a: &a [1]\nb: *a", "alias"),
        ("traefik", "static", "entryPoints: {}", "has entryPoints, which lbgen writes itself"),
        ("traefik", "dynamic", "a: [", "is no YAML"),
    ],
)
def test_what_cannot_be_placed_is_refused(name: str, place: str, text: str, said: str) -> None:
    with pytest.raises(LbgenError, match=said) as raised:
        lbgen.render(topology({name: {place: text}}), engine=name)
    assert [each.code for each in raised.value.diagnostics] == ["LB304"]


def test_text_that_its_engine_does_not_take_is_told_by_check() -> None:
    assert check(lbgen.plan(topology({"nginx": {"http": "no_such_directive on;"}})), "nginx")
