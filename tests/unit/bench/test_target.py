"""The request that a benchmark sends."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.bench.target import choose_target
from lbgen.diagnostics import UsageError
from lbgen.plan.request import Request
from lbgen.runtime.common.certificates import write_self_signed

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
        (plan(ROUTES[:1]), "no route forwards a GET"),
        (plan(ROUTES[2:3]), "no route forwards a GET"),
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


def test_a_listener_of_layer_4_is_measured_last_or_when_named() -> None:
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"db": {"port": 5432, "mode": "l4"}, "web": {"port": 8080}},
        "pools": {
            "pg": {"endpoints": [{"address": "10.0.0.2:5432"}]},
            "app": {"endpoints": [{"address": "10.0.0.1:80"}]},
        },
        "routes": [
            {"name": "db", "listeners": ["db"], "forward": "pg"},
            {"name": "app", "listeners": ["web"], "forward": "app"},
        ],
    }
    made = lbgen.plan(lbgen.load(data))
    assert choose_target(made).listener == "web"
    found = choose_target(made, listener="db")
    assert (found.route, found.endpoint, found.http2) == ("db", "pools.pg.endpoints[0]", False)
    with pytest.raises(UsageError, match="no listener other"):
        choose_target(made, listener="other")


@pytest.mark.parametrize(
    ("names", "host", "asked"),
    [
        (("a.example",), "a.example:8443", "a.example"),
        (("*.example",), "a.example", "a.example"),
        (("other.example", "c.example"), "a.example", "other.example"),
        (("*.c.example",), "a.b.c.example", "x.c.example"),
    ],
)
def test_tls_asks_for_a_name_that_a_certificate_holds(tmp_path, names, host: str, asked: str) -> None:
    write_self_signed(tmp_path / "c.pem", tmp_path / "k.pem", names)
    files = {"cert": str(tmp_path / "c.pem"), "key": str(tmp_path / "k.pem")}
    made = plan([{"name": "app", "forward": "app"}], listener={"tls": {"certificates": [files]}})
    found = choose_target(made, Request(headers=(("Host", host),), listener="web"))
    assert (found.server_name, found.http2) == (asked, True)
    assert found.headers[0] == ("Host", host if asked in host else asked)


def test_tiers_are_refused() -> None:
    with pytest.raises(UsageError, match="tiers") as caught:
        lbgen.bench(lbgen.load("examples/hybrid-edge/topology.yaml"))
    assert caught.value.diagnostics[0].code == "LB431"
