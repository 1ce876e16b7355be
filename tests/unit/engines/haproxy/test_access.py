"""Access lists as statements of a HAProxy frontend."""

from __future__ import annotations

from lbgen.engines.haproxy import ENGINE
from lbgen.plan.resolve import plan
from lbgen.spec.load import load
from tests.support.plans import topology


def files(listener: dict | None = None, **route) -> dict[str, str]:
    made = plan(load(topology(route, listener=listener)))
    return {file.name: file.text for file in ENGINE.render(made, "2.8")}


def test_access_goes_by_the_peer_when_nobody_is_trusted() -> None:
    config = files(access={"allow": ["10.0.0.0/8"], "deny": ["10.1.0.0/16"]})["haproxy.cfg"]
    denied = config.index("{ src -m ip 10.1.0.0/16 }")
    assert denied < config.index("!{ src -m ip 10.0.0.0/8 }")


def test_access_goes_by_what_trusted_proxies_say() -> None:
    config = files(listener={"trusted_proxies": ["10.0.0.0/8"], "access": {"deny": ["192.0.2.0/24"]}})["haproxy.cfg"]
    assert "lua.client x-forwarded-for 10.0.0.0/8 if { src -m ip 10.0.0.0/8 }" in config
    assert "{ var(txn.client) -m ip 192.0.2.0/24 }" in config


def test_long_lists_of_networks_go_to_a_file() -> None:
    networks = [f"10.{n}.0.0/16" for n in range(100)]
    found = files(access={"deny": networks})
    assert found["maps/web.access.1.deny.lst"].splitlines()[1:] == networks
