"""How long an unused connection to an endpoint is kept is written out for each engine, the default as well."""

from __future__ import annotations

import re

import pytest

import lbgen

# By engine: what its files say of 4 s (the default), of 1.5 s and of no limit.
SAYS = {
    "nginx": ("keepalive_timeout 4s;", "keepalive_timeout 1500ms;", "keepalive_timeout 365d;"),
    "haproxy": ("pool-purge-delay 400ms", "pool-purge-delay 150ms", "pool-purge-delay 24d"),
    "envoy": ("idle_timeout: 4s", "idle_timeout: 1.500s", "idle_timeout: 0s"),
    "traefik": ("idleConnTimeout: 4s", "idleConnTimeout: 1500ms", "idleConnTimeout: 0s"),
}


def rendered(engine: str, connections: dict[str, object]) -> str:
    data = {
        "version": 1,
        "name": "t",
        "profile": "minimal",
        "listeners": {"web": {"port": 8080}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}], "connections": connections}},
        "routes": [{"name": "all", "forward": "app"}],
    }
    files = lbgen.render(lbgen.load(data), engine=engine, accept=("all",))
    return "\n".join(files[name] for name in sorted(files) if not name.endswith(".go"))


@pytest.mark.parametrize("engine", SAYS)
def test_the_time_is_written_out(engine: str) -> None:
    default, own, none = SAYS[engine]
    assert default in rendered(engine, {})
    assert default in rendered(engine, {"keepalive_idle": "4s"})
    assert own in rendered(engine, {"keepalive_idle": "1500ms"})
    assert none in rendered(engine, {"keepalive_idle": "0s"})


def test_haproxy_writes_a_time_of_its_own_on_the_servers_only() -> None:
    assert len(re.findall("pool-purge-delay", rendered("haproxy", {}))) == 1
    assert "server s1 10.0.0.1:80 pool-purge-delay 150ms" in rendered("haproxy", {"keepalive_idle": "1500ms"})


def test_no_time_where_no_connection_is_kept() -> None:
    with pytest.raises(lbgen.LbgenError) as stop:
        rendered("nginx", {"keepalive": 0, "keepalive_idle": "1s"})
    assert [(d.code, d.field) for d in stop.value.diagnostics] == [("LB228", "pools.app.connections.keepalive_idle")]
