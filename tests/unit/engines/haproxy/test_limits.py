"""Access lists, limits, rates and body sizes as statements of a HAProxy frontend."""

from __future__ import annotations

from lbgen.engines.haproxy import ENGINE
from lbgen.plan.resolve import plan
from lbgen.spec.load import load

TOPOLOGY = {
    "version": 1,
    "name": "t",
    "listeners": {"web": {"port": 8080}},
    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [{"name": "r", "forward": "p"}],
}


def files(version: str = "2.8", listener: dict | None = None, **route) -> dict[str, str]:
    data = {
        **TOPOLOGY,
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "routes": [{"name": "r", "forward": "p", **route}],
    }
    return {file.name: file.text for file in ENGINE.render(plan(load(data)), version)}


def test_nothing_is_paid_for_what_is_not_asked() -> None:
    plain = files()
    assert list(plain) == ["haproxy.cfg"]
    for word in ("stick-table", "filter", "txn.client", "413", "429", "431", "414"):
        assert word not in plain["haproxy.cfg"]


def test_access_goes_by_the_peer_when_nobody_is_trusted() -> None:
    config = files(access={"allow": ["10.0.0.0/8"], "deny": ["10.1.0.0/16"]})["haproxy.cfg"]
    denied = config.index("{ src -m ip 10.1.0.0/16 }")
    assert denied < config.index("!{ src -m ip 10.0.0.0/8 }")


def test_access_goes_by_what_trusted_proxies_say() -> None:
    config = files(listener={"trusted_proxies": ["10.0.0.0/8"], "access": {"deny": ["192.0.2.0/24"]}})["haproxy.cfg"]
    assert "lua.client 10.0.0.0/8 if { src -m ip 10.0.0.0/8 }" in config
    assert "{ var(txn.client) -m ip 192.0.2.0/24 }" in config


def test_long_lists_of_networks_go_to_a_file() -> None:
    networks = [f"10.{n}.0.0/16" for n in range(100)]
    found = files(access={"deny": networks})
    assert found["maps/web.access.1.deny.lst"].splitlines()[1:] == networks


def test_an_empty_allow_list_keeps_all_out() -> None:
    lines = files(listener={"access": {"allow": []}})["haproxy.cfg"].splitlines()
    assert any("status 403" in line and " if " not in line for line in lines)


def test_a_bucket_is_counted_in_times_that_its_clock_holds() -> None:
    for rate, burst, clock, token in (
        ("10/s", 20, "date(0,us)", 100_000),
        ("6/m", 4, "date(0,us)", 10_000_000),
        ("100/h", 100, "date(0,ms)", 36_000),
    ):
        config = files(rate_limit={"rate": rate, "burst": burst, "key": "client_ip"})["haproxy.cfg"]
        assert f"set-var(txn.now) {clock},mod(1000000000)\n" in config
        assert f"deny_status 429 if {{ var(txn.until) -m int gt {token * (burst - 1)} }}" in config
        assert f"sc-set-gpt0(1) var(txn.until),add({token}),add(txn.now)" in config


def test_the_buffer_holds_what_limits_let_in() -> None:
    assert "tune.bufsize" not in files()["haproxy.cfg"]  # HAProxy's own: 16 KiB
    assert "tune.bufsize 72704" in files(listener={"limits": {"headers": "64KiB", "target": "2KiB"}})["haproxy.cfg"]
