"""HAProxy: retries of requests with bodies."""

from __future__ import annotations

import lbgen


def _backend(routes: list[dict]) -> str:
    topology = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]}},
        "routes": routes,
    }
    return lbgen.render(lbgen.load(topology), engine="haproxy", accept=("all",))["haproxy.cfg"]


def _route(name: str, on: list, **more: object) -> dict:
    return {
        "name": name,
        "match": [{"path": {"prefix": f"/{name}"}}],
        "forward": "p",
        "retries": {"max": 1, "on": on},
        **more,
    }


HELD = {"buffering": {"request": True}}
LONG = "disable-l7-retry if { req.body_size gt 16384 }"


def test_a_long_body_is_sent_once():
    assert f"{LONG}\n" in _backend([_route("a", ["reset"])])


def test_a_route_that_holds_bodies_sends_them_again_also_beside_one_that_does_not():
    assert LONG not in _backend([_route("a", ["reset"], **HELD)])
    text = _backend([_route("a", ["reset"], **HELD), _route("b", ["reset"])])
    assert f"{LONG} !{{ var(txn.route) -m str a }}\n" in text


def test_failed_connections_alone_need_no_bound():
    assert LONG not in _backend([_route("a", ["connect_failure"])])
