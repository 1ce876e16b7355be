"""What `lbgen verify` says that it does not try."""

from __future__ import annotations

from typing import Any

import lbgen
from lbgen.conformance.verify.gaps import find_gaps


def said(pool: dict[str, Any], routes: list[dict[str, Any]] | None = None, **route: Any) -> tuple[str, ...]:
    data = {
        "version": 1,
        "name": "t",
        "profile": "minimal",
        "listeners": {"web": {"port": 8080}},
        "pools": {"a": {"endpoints": [{"address": "10.0.0.1:80"}], **pool}},
        "routes": routes or [{"name": "r", "forward": "a", **route}],
    }
    return find_gaps(lbgen.plan(lbgen.load(data)))


def test_nothing_is_left_out_of_a_plain_topology() -> None:
    assert said({}) == ()


def test_features_are_named_with_their_places() -> None:
    assert any("pool.endpoint_names (pools.a.endpoints[0]" in x for x in said({"endpoints": [{"address": "web:80"}]}))
    assert any("pool.slow_start" in x for x in said({"slow_start": "10s"}))


def test_routes_whose_faults_are_left_out_are_named() -> None:
    assert any("health checks (r)" in x for x in said({"health": {"active": {"path": "/"}}}))
    limited = said({}, rate_limit={"rate": "10/s", "burst": 5, "key": "route"})
    assert any("whose rate is shared (r)" in x for x in limited)
    assert any("HTTP/2 endpoints" in x for x in said({"protocol": "http2"}))


def test_of_many_routes_ten_are_named() -> None:
    routes = [{"name": f"r{n}", "match": [{"path": {"prefix": f"/{n}"}}], "forward": "a"} for n in range(2000)]
    found = said({"health": {"active": {"path": "/"}}}, routes=routes)
    names = ", ".join(f"r{n}" for n in range(10))
    assert f"failing endpoints of routes with health checks ({names} and 1990 more), but for the checks" in found
