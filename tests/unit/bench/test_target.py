"""The request that a benchmark sends."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.bench.target import choose_target
from lbgen.diagnostics import UsageError
from lbgen.plan.request import Request

ROUTES = [
    {"name": "hi", "match": [{"path": {"exact": "/hi"}}], "respond": {"status": 200, "body": "hi"}},
    {
        "name": "few",
        "match": [{"path": {"prefix": "/few"}}],
        "forward": "app",
        "rate_limit": {"key": "client_ip", "rate": "5/s"},
    },
    {"name": "post", "match": [{"path": {"prefix": "/post"}, "methods": ["POST"]}], "forward": "app"},
    {"name": "app", "hosts": ["a.example"], "match": [{"headers": {"x-new": "1"}}], "forward": "app"},
]


def plan(routes=ROUTES, pool=None, listener=None):
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}], **(pool or {})}},
        "routes": routes,
    }
    return lbgen.plan(lbgen.load(data))


def test_the_first_get_that_is_forwarded_without_a_limit() -> None:
    found = choose_target(plan())
    assert (found.route, found.listener, found.endpoint) == ("app", "web", "pools.app.endpoints[0]")
    assert found.headers == (("Host", "a.example"), ("x-new", "1"))


def test_a_limited_route_where_there_is_no_other() -> None:
    assert choose_target(plan(ROUTES[:2])).route == "few"


def test_a_request_of_the_user_s() -> None:
    found = choose_target(plan(), Request(target="/few/1?a=b", headers=(("Host", "x"),), listener="web"))
    assert (found.route, found.target) == ("few", "/few/1?a=b")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (plan(ROUTES[:1]), "no route of an L7 listener forwards a GET"),
        (plan(ROUTES[2:3]), "no route of an L7 listener forwards a GET"),
        (plan(pool={"protocol": "http2"}), "speaks HTTP/2"),
        (plan(listener={"proxy_protocol": "accept"}), "expects a PROXY header"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(made, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        choose_target(made)
    assert caught.value.diagnostics[0].code == "LB431"


def test_a_request_that_is_not_forwarded_is_refused() -> None:
    with pytest.raises(UsageError, match="not forwarded"):
        choose_target(plan(), Request(target="/hi", headers=(("Host", "x"),), listener="web"))


def test_tiers_are_refused() -> None:
    with pytest.raises(UsageError, match="tiers") as caught:
        lbgen.bench(lbgen.load("examples/hybrid-edge/topology.yaml"))
    assert caught.value.diagnostics[0].code == "LB431"
