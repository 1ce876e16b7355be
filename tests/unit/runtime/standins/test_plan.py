"""Stand-ins that play a plan's endpoints, and the way a probe takes into a listener."""

from __future__ import annotations

import asyncio
import http.client
import json
import shutil

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.agent import probe
from lbgen.conformance.verify.addresses import why_moved
from lbgen.engines.agent_spec import checked_pools
from lbgen.plan.model import Mode
from lbgen.plan.overlay import with_real_endpoints
from lbgen.runtime.common import readiness
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.common.health import members
from lbgen.runtime.common.route_probes import ConnectOptions, ask, connect_options, make_probes
from lbgen.runtime.standins.plan import describe_pools, plan_stand_ins
from lbgen.runtime.standins.server import stand_in_servers

pytestmark = pytest.mark.xdist_group("runtime")
CHECK = {"active": {"path": "/health", "port": 9999, "expect": [204]}}
TLS = {"certificates": [{"cert": "shop.crt", "key": "shop.key"}]}


@pytest.fixture
def plan(tmp_path):
    for name in ("shop.crt", "shop.key", "ca.crt", "client-ca.crt", "client.crt", "client.key"):
        shutil.copy(temporary_certificates() / name, tmp_path / name)
    shown = {"cert": "client.crt", "key": "client.key"}
    topology = {
        "version": 1,
        "name": "stand_in_set",
        "listeners": {
            "web": {"port": 8080, "proxy_protocol": "accept"},
            "secure": {"port": 8443, "tls": TLS},
            "mutual": {"port": 8444, "tls": TLS | {"client": {"ca": "client-ca.crt", "verify": "required"}}},
            "edge": {"port": 9443, "mode": "l4", "tls": {"mode": "passthrough"}},
        },
        "pools": {
            "ca": {
                "endpoints": [{"address": "10.0.0.1:443"}],
                "tls": {"ca": "ca.crt", "server_name": "backend.internal", "certificate": shown},
                "protocol": "http2",
                "health": CHECK,
            },
            "told": {"endpoints": [{"address": "10.0.0.2:80"}], "proxy_protocol": "v2", "health": CHECK},
            "behind": {"endpoints": [{"address": "10.0.0.3:443"}]},
        },
        "routes": [
            {"name": "ca", "match": [{"path": {"prefix": "/ca"}}], "forward": "ca"},
            {
                "name": "limited",
                "match": [{"path": {"exact": "/l"}}],
                "forward": "told",
                "rate_limit": {"rate": "1/m", "key": "client_ip"},
            },
            {"name": "told", "listeners": ["web", "secure", "mutual"], "forward": "told"},
            {"name": "edge", "listeners": ["edge"], "hosts": ["*.x.example"], "forward": "behind"},
        ],
    }
    path = tmp_path / "topology.yaml"
    path.write_text(json.dumps(topology))
    return lbgen.plan(lbgen.load(path))


def test_stand_ins_pass_the_checks_that_their_pools_make(plan, tmp_path):
    made = plan_stand_ins(plan, ("127.0.0.1",), frozenset({26_000}), tmp_path / "made")
    assert len({*made.ports.values(), 26_000}) == 4
    played = made.apply_to(plan, "127.0.0.1")
    assert played.pool("ca").tls.server_name == "backend.internal"
    copies = {file.path: file.source for file in played.files}
    assert copies["tls/lbgen-stand-ins.crt"] == str(tmp_path / "made/ca.crt")
    assert played.pool("ca").tls.certificate == plan.pool("ca").tls.certificate
    for file in plan.files + played.files:
        target = tmp_path / "engine" / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file.source, target)
    with stand_in_servers(made.stand_ins):
        for pool in checked_pools(played.pools):
            tls = probe.tls_context(pool.tls, tmp_path / "engine", http2=pool.http2) if pool.tls else None
            assert asyncio.run(probe.check(pool, pool.targets[0], tls)) == "", pool.name


def test_without_stand_ins_nothing_changes(plan, tmp_path):
    from lbgen.runtime.standins.plan import StandInSet

    assert StandInSet().apply_to(plan, "127.0.0.1") is plan


def test_pools_of_udp_routes_get_stand_ins_for_datagrams_too(tmp_path):
    topology = {
        "version": 1,
        "name": "datagrams",
        "listeners": {
            "dns": {"port": 53, "mode": "l4", "protocol": "udp"},
            "syslog": {"port": 514, "mode": "l4", "protocol": "udp"},
            "dns-tcp": {"port": 53, "mode": "l4"},
            "web": {"port": 80},
        },
        "pools": {
            "both": {"endpoints": [{"address": "10.0.0.1:53"}, {"address": "10.0.0.2:53"}]},
            "own": {"endpoints": [{"address": "10.0.0.3:514"}], "stand_ins": False},
            "web": {"endpoints": [{"address": "10.0.0.4:80"}]},
        },
        "routes": [
            {"name": "dns", "listeners": ["dns"], "forward": "both"},
            {"name": "syslog", "listeners": ["syslog"], "forward": "own"},
            {"name": "long", "listeners": ["dns-tcp"], "forward": "both"},
            {"name": "web", "listeners": ["web"], "forward": "web"},
        ],
    }
    plan = lbgen.plan(lbgen.load(topology))
    made = plan_stand_ins(plan, ("127.0.0.1", "127.0.0.2"), frozenset(), tmp_path)
    assert len({each.name for each in made.stand_ins}) == len(made.stand_ins) == 10
    assert {each.pool for each in made.stand_ins if each.datagrams} == {"both"}
    again = plan_stand_ins(plan, ("127.0.0.1", "127.0.0.2"), frozenset(), tmp_path, before=made)
    assert again == made
    probes = make_probes(plan)
    assert [(each.route, each.datagrams) for each in probes] == [("dns", True), ("long", False), ("web", False)]
    (only,) = readiness.unreachable_routes(plan, probes, "Some engine")
    assert "route syslog on syslog was not asked, as its own endpoints need not answer" in only.message
    with stand_in_servers(made.stand_ins) as servers:
        host, port = "127.0.0.2", made.ports[plan.pool("both").endpoints[1].field]
        assert ask(probes[0], host, port) == ""
        assert servers.requests["pools.both.endpoints[1]/udp@127.0.0.2"] == 1
        other = replace(probes[0], pools=frozenset({"web"}))
        assert ask(other, host, port) == "pool both and not web"
    assert ask(probes[0], host, port).startswith("ConnectionRefusedError")


def test_pools_with_endpoints_of_their_own_are_not_played(plan, tmp_path):
    real = with_real_endpoints(plan, {"ca"})
    made = plan_stand_ins(real, ("127.0.0.1",), frozenset(), tmp_path / "made")
    inside = made.apply_to(real, "127.0.0.1")
    assert {each.pool for each in made.stand_ins} == {"told", "behind"}
    assert inside.pool("ca") == real.pool("ca")
    assert inside.pool("told").endpoints[0].host == "127.0.0.1"
    assert describe_pools(inside) == (
        "their own for ca; stand-ins for told, behind; --real-endpoints forwards to the pools' own"
    )
    assert {x.route: x.real for x in make_probes(inside)} == {
        "ca": True,
        "limited": False,
        "told": False,
        "edge": False,
    }
    named = {x.name: (x.address == x.name) for x in members(real, inside)}
    assert named == {"10.0.0.1:443": True, "10.0.0.2:80": False, "10.0.0.3:443": False}


def test_a_probe_knows_the_door(plan):
    assert connect_options(plan.listener("web")) == ConnectOptions(proxied=True)
    assert connect_options(plan.listener("secure")) == ConnectOptions(tls=True, sni="shop.example")
    assert connect_options(plan.listener("mutual")) is None
    found = {(each.listener, each.route): each for each in make_probes(plan)}
    assert {listener for listener, _ in found} == {"web", "secure", "edge"}
    assert found["edge", "edge"].connect == ConnectOptions(tls=True, sni="lbgen-probe.x.example")
    assert found["web", "limited"].others == (429,)
    assert found["secure", "told"].others == ()
    (only,) = readiness.unreachable_routes(plan, tuple(found.values()), "Some engine")
    assert "nothing on mutual was asked, as that needs a certificate of a client" in only.message
    assert plan.listener("edge").mode is Mode.L4


@pytest.mark.parametrize("name", ["told", "behind"])
def test_a_door_leads_through_proxy_header_and_tls(plan, tmp_path, name):
    made = plan_stand_ins(plan, ("127.0.0.1",), frozenset(), tmp_path / "made")
    port = made.ports[plan.pool(name).endpoints[0].field]
    way = ConnectOptions(proxied=True) if name == "told" else ConnectOptions(tls=True, sni="lbgen-probe.x.example")
    with stand_in_servers(made.stand_ins):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.sock = way.open("127.0.0.1", port, 3)
        connection.request("GET", "/x")
        assert json.loads(connection.getresponse().read())["pool"] == name
        connection.close()


@pytest.mark.parametrize(("field", "host"), [("listener", "127.0.0.2"), ("endpoint", "::1"), ("neither", "10.0.0.1")])
def test_a_loopback_address_cannot_be_across_a_cable(field, host):
    topology = {
        "version": 1,
        "name": "near",
        "listeners": {"web": {"port": 8080, "address": host if field == "listener" else "10.0.0.9"}},
        "pools": {"p": {"endpoints": [{"address": "[::1]:80" if field == "endpoint" else "10.0.0.1:80"}]}},
        "routes": [{"name": "all", "forward": "p"}],
    }
    found = why_moved(lbgen.plan(lbgen.load(topology)))
    wanted = {"listener": "listeners.web", "endpoint": "pools.p.endpoints[0]", "neither": None}[field]
    assert found == (f"{wanted} is on loopback" if wanted else "")
