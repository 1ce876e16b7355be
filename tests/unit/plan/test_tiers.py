"""A topology of tiers becomes a plan for each of them, and the oracle follows a request through."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

import lbgen
from lbgen.conformance.topology_diff import compare_tiers
from lbgen.diagnostics import UsageError
from lbgen.engines.api import engine_of, engines_of
from lbgen.plan.simulate import L4Outcome, Outcome
from lbgen.plan.tier_simulation import follow_tiers, l4_fronts
from lbgen.plan.tiers import parts

HYBRID: dict[str, Any] = {
    "version": 1,
    "name": "hybrid",
    "tiers": {"edge": {"engine": "haproxy"}, "web": {"replicas": 3}},
    "listeners": {
        "public": {"port": 8080, "mode": "l4", "tier": "edge"},
        "http": {"port": 8081, "tier": "web", "proxy_protocol": "accept"},
    },
    "pools": {
        "nodes": {"tier": "web", "proxy_protocol": "v2"},
        "app": {"endpoints": [{"address": "10.0.0.1:80"}]},
    },
    "routes": [
        {"name": "in", "listeners": ["public"], "forward": "nodes"},
        {"name": "moved", "match": [{"path": {"exact": "/old"}}], "redirect": {"path": "/new"}},
        {"name": "all", "forward": "app"},
    ],
}


def hybrid(**more: Any) -> lbgen.Topology:
    return lbgen.load(deepcopy(HYBRID) | more)


def addresses(tier: lbgen.Tier, pool: str) -> list[str]:
    return [endpoint.authority for endpoint in tier.plan.pool(pool).endpoints]


def test_each_tier_has_the_plan_of_what_is_its_own() -> None:
    edge, web = lbgen.tiers(hybrid())
    assert (edge.name, edge.engine, edge.replicas, edge.entry) == ("edge", "haproxy", 1, True)
    assert (web.name, web.engine, web.replicas, web.entry) == ("web", None, 3, False)
    assert [x.name for x in edge.plan.routes] == ["in"]
    assert [(x.name, x.field) for x in web.plan.routes] == [("moved", "routes[1]"), ("all", "routes[2]")]
    assert [x.name for x in edge.plan.pools] == ["nodes"]
    assert [x.name for x in web.plan.pools] == ["app"]
    assert {use.feature for use in edge.plan.uses}.isdisjoint({"listener.l7", "access_log", "framing"})
    assert web.names == ("hybrid-web-1", "hybrid-web-2", "hybrid-web-3")


def test_a_pool_has_the_replicas_as_endpoints() -> None:
    edge, _ = lbgen.tiers(hybrid())
    assert addresses(edge, "nodes") == ["hybrid-web-1:8081", "hybrid-web-2:8081", "hybrid-web-3:8081"]
    edge, _ = lbgen.tiers(hybrid(), {"web": 1})
    assert addresses(edge, "nodes") == ["hybrid-web-1:8081"]
    edge, web = lbgen.tiers(hybrid(tiers={"edge": {}, "web": {"hosts": ["10.0.0.5", "web.internal", "::1"]}}))
    assert addresses(edge, "nodes") == ["10.0.0.5:8081", "web.internal:8081", "[::1]:8081"]
    assert web.replicas == 3
    assert [x.is_ip for x in edge.plan.pool("nodes").endpoints] == [True, False, True]


def test_where_replicas_run_is_told_by_the_runtime() -> None:
    places = {"web": [{"http": ("127.0.0.1", 20001)}, {"http": ("127.0.0.1", 20002)}]}
    edge, _ = lbgen.tiers(hybrid(), {"web": 2}, places)
    assert addresses(edge, "nodes") == ["127.0.0.1:20001", "127.0.0.1:20002"]
    assert "pool.endpoint_names" not in {use.feature for use in edge.plan.uses}


@pytest.mark.parametrize(("asked", "said"), [({"wbe": 2}, "no tier 'wbe'"), ({"web": 0}, "0 replicas")])
def test_replicas_that_cannot_be(asked: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        lbgen.tiers(hybrid(), asked)


def test_clients_know_the_port_in_front() -> None:
    _, web = lbgen.tiers(hybrid())
    (http,) = web.plan.listeners
    assert (http.port, http.client_port) == (8081, 8080)
    two = {**HYBRID["listeners"], "other": {"port": 9090, "mode": "l4", "tier": "edge"}}
    routes = [*HYBRID["routes"], {"name": "also", "listeners": ["other"], "forward": "nodes"}]
    _, web = lbgen.tiers(hybrid(listeners=two, routes=routes))
    assert web.plan.listeners[0].client_port == 8081, "clients come in by several ports: its own is as good as any"


def test_an_engine_that_is_not_there_has_a_place() -> None:
    edge, web = lbgen.tiers(hybrid(tiers={"edge": {"engine": "apache"}, "web": {"engine": "nginx"}}))
    with pytest.raises(lbgen.LbgenError, match=r"LB305 tiers\.edge\.engine: .*apache"):
        engine_of(edge)
    assert engines_of(web, ("envoy",)) == ("nginx",)


def test_one_plan_cannot_be_had() -> None:
    with pytest.raises(UsageError, match="LB306"):
        lbgen.plan(hybrid())
    plain = deepcopy(HYBRID)
    del plain["tiers"], plain["listeners"]["public"], plain["pools"]["nodes"], plain["routes"][0]
    del plain["listeners"]["http"]["tier"]
    (only,) = parts(lbgen.load(plain))
    assert (only.name, only.plan) == ("", lbgen.plan(lbgen.load(plain)))
    assert lbgen.tiers(lbgen.load(plain)) == ()


def test_three_tiers_are_in_the_order_of_traffic() -> None:
    topology = hybrid(
        tiers={"web": {}, "middle": {}, "edge": {}},
        listeners={**HYBRID["listeners"], "mid": {"port": 8082, "mode": "l4", "tier": "middle"}},
        pools={**HYBRID["pools"], "middles": {"tier": "middle"}},
        routes=[
            {"name": "first", "listeners": ["public"], "forward": "middles"},
            {"name": "in", "listeners": ["mid"], "forward": "nodes"},
            *HYBRID["routes"][1:],
        ],
    )
    found = lbgen.tiers(topology)
    assert [x.name for x in found] == ["edge", "middle", "web"]
    assert [x.plan.listeners[0].client_port for x in found] == [8080, 8080, 8080]
    hops = follow_tiers(found, "public", lbgen.Request(target="/x", headers=(("Host", "a"),), client="198.51.100.7"))
    assert [(x.tier, x.listener, x.client_known) for x in hops] == [
        ("edge", "public", True),
        ("middle", "mid", False),
        ("web", "http", False),
    ], "the PROXY header of the last hop names the tier before it, as that one got none"


def test_the_oracle_goes_through() -> None:
    tiers = lbgen.tiers(hybrid())
    edge, web = follow_tiers(
        tiers, "public", lbgen.Request(target="/x", headers=(("Host", "a"),), client="198.51.100.7")
    )
    assert isinstance(edge.outcome, L4Outcome)
    assert isinstance(web.outcome, Outcome)
    assert (edge.outcome.route, edge.next) == ("in", ("web", "http"))
    assert (web.outcome.route, web.next, web.client_known) == ("all", None, True)
    sent = dict(web.outcome.upstreams[0].headers)
    assert (sent["x-forwarded-for"], sent["x-forwarded-port"]) == ("198.51.100.7", "8080")
    *_, web = follow_tiers(tiers, "public", lbgen.Request(target="/old", headers=(("Host", "a"),)))
    assert isinstance(web.outcome, Outcome)
    assert web.outcome.location == "http://a:8080/new"


@pytest.mark.parametrize("name", ["nginx", "haproxy", "envoy"])
def test_engines_tell_endpoints_the_port_that_clients_know(name: str) -> None:
    _, web = lbgen.tiers(hybrid())
    texts = "\n".join(lbgen.render(web.plan, engine=name, accept=("all",)).values())
    assert "8080" in texts
    assert "8081" in texts


def test_what_changes_between_topologies_of_tiers() -> None:
    routes = [*HYBRID["routes"][:1], {**HYBRID["routes"][1], "redirect": {"path": "/newer"}}, HYBRID["routes"][2]]
    other = hybrid(tiers={"edge": {"engine": "envoy"}, "web": {"replicas": 5}}, routes=routes)
    found = compare_tiers(parts(hybrid()), parts(other))
    assert [(x.listener, x.routes) for x in found.requests] == [("http", ("moved", "moved"))]
    assert {(x.field, x.before, x.after) for x in found.fields} >= {
        ("tiers.edge.engine", "haproxy", "envoy"),
        ("tiers.web.replicas", "3", "5"),
    }
    assert compare_tiers(parts(hybrid()), parts(hybrid())).same


def test_what_clients_meet_at_the_edge_is_the_listener_behind() -> None:
    (front,) = l4_fronts(lbgen.tiers(hybrid()))
    (seen,) = front.plan.listeners
    assert (front.tier, front.entry.name, front.behind, front.client_known, front.proxied) == (
        *("edge", "public", "web"),
        *(True, True),
    )
    assert (seen.name, seen.port, seen.client_port, seen.proxy_protocol) == ("http", 8080, 8080, False)
    by_name = {"name": "in", "listeners": ["public"], "hosts": ["a.example"], "forward": "nodes"}
    public = {**HYBRID["listeners"]["public"], "tls": {"mode": "passthrough"}}
    listeners = {**HYBRID["listeners"], "public": public}
    assert l4_fronts(lbgen.tiers(hybrid(routes=[by_name, *HYBRID["routes"][1:]], listeners=listeners))) == ()


def test_replicas_that_change_change_one_file_that_envoy_watches() -> None:
    def files(hosts: list[str]) -> dict[str, str]:
        edge, _ = lbgen.tiers(hybrid(tiers={"edge": {"engine": "envoy"}, "web": {"hosts": hosts}}))
        return dict(lbgen.render(replace(edge.plan, admin_port=9901), "envoy"))

    two, one = files(["10.0.1.10", "10.0.1.11"]), files(["10.0.1.10"])
    (name,) = [name for name in two if two[name] != one[name]]
    assert name.endswith("/endpoints/nodes.yaml")
    (assignment,) = yaml.safe_load(two[name])["resources"]
    assert (assignment["cluster_name"], len(assignment["endpoints"][0]["lb_endpoints"])) == ("nodes", 2)
