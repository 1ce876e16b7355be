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
    assert "shared.lua" not in plain
    for word in ("stick-table", "filter", "txn.client", "413", "429", "431"):
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


def test_version_2_6_has_one_lua_state_when_threads_share_counts() -> None:
    limited = {"rate_limit": {"rate": "5/s", "key": "route"}}
    assert "lua-load-per-thread lbgen.lua" in files("2.8", **limited)["haproxy.cfg"]
    assert "lua-load lbgen.lua" in files("2.6", **limited)["haproxy.cfg"]
    assert "lua-load-per-thread" not in files("2.6", **limited)["haproxy.cfg"]


def test_the_buffer_holds_what_limits_let_in() -> None:
    assert "tune.bufsize" not in files()["haproxy.cfg"]  # HAProxy's own: 16 KiB
    assert "tune.bufsize 72704" in files(listener={"limits": {"headers": "64KiB", "target": "2KiB"}})["haproxy.cfg"]


NATIVE = {"guarantees": "engine"}


def test_what_is_left_to_haproxy_takes_no_lua_and_only_rules_for_safety() -> None:
    native = files(listener=NATIVE)
    assert "lbgen.lua" not in native
    for word in ("lua", "plain", "malformed", "http-error", "set-status"):
        assert word not in native["haproxy.cfg"], word


def test_fields_that_rest_on_statuses_keep_them() -> None:
    native = files(listener=NATIVE, max_body="1KiB")
    assert "set-status 413" in native["haproxy.cfg"]
    assert "http-error status 404" not in native["haproxy.cfg"]


def test_a_normal_paths_field_of_the_user_holds() -> None:
    kept = files(listener={**NATIVE, "paths": "normalize"})["haproxy.cfg"]
    assert "lua.normal_path" in kept
    assert "deny_status 405" not in kept
