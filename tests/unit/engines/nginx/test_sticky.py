"""nginx: clients that stay with an endpoint, and backups beside hashing."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.plan.resolve import plan
from tests.support import plans
from tests.support.nginx import with_includes


def topology(version: str, **pool) -> dict:
    ends = [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80", "weight": 0}]
    return plans.topology(pool={"endpoints": ends, **pool}, engines={"nginx": {"version": version}})


def rendered(data: dict) -> str:
    return with_includes(lbgen.render(lbgen.load(data), engine="nginx", accept=("all",)))


def test_a_drained_server_keeps_its_clients():
    data = topology("1.31", sticky={"cookie": "LB"})
    _, drained = plan(lbgen.load(data)).pool("p").endpoints
    assert f"server 10.0.0.2:80 max_fails=0 route={drained.cookie_value} drain;" in rendered(data)


def test_an_old_nginx_has_an_upstream_for_each_endpoint():
    data = topology("1.22", sticky={"cookie": "LB"})
    first, _ = plan(lbgen.load(data)).pool("p").endpoints
    text = rendered(data)
    assert "route=" not in text
    assert f'"={first.cookie_value}" p~0;' in text
    own = text[text.index("upstream p~1 {") :].partition("}")[0]
    assert "server 10.0.0.2:80 max_fails=0; server 10.0.0.1:80 max_fails=0 backup;" in own  # for while it is out


def test_backups_beside_hashing_are_refused():
    ends = [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80", "backup": True}]
    with pytest.raises(lbgen.LbgenError, match="no backups beside source_hash"):
        rendered(topology("1.31", endpoints=ends, balance="source_hash"))
    assert "server 10.0.0.2:80 max_fails=0 backup;" in rendered(topology("1.31", endpoints=ends))


def test_the_only_server_can_be_ejected():
    ends = [{"address": "10.0.0.1:80"}]
    text = rendered(topology("1.31", endpoints=ends, health={"passive": {"failures": 3, "eject_for": "1500ms"}}))
    assert "server 10.0.0.1:80 max_fails=3 fail_timeout=2s; server 127.0.0.1:1 down;" in text
