"""Rules on fields that only trusted proxies may send hold for requests of those alone."""

from __future__ import annotations

from tests.unit.engines.traefik.test_routers import plan_of, routers_of


def rule_of(header: str, *trusted: str) -> str:
    route = {"name": "a", "match": [{"path": {"prefix": "/"}, "headers": {header: "x"}}], "forward": "app"}
    listeners = {"web": {"port": 8080, "trusted_proxies": list(trusted)}}
    (router,) = routers_of(plan_of([route], listeners=listeners)).values()
    return str(router["rule"])


def test_the_peer_is_a_trusted_proxy():
    for header in ("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto", "x-request-id"):
        rule = rule_of(header, "10.0.0.0/8", "fd00::/8")
        assert rule.endswith(" && (ClientIP(`10.0.0.0/8`) || ClientIP(`fd00::/8`))")


def test_other_fields_are_anybodys():
    assert "ClientIP" not in rule_of("x-tenant", "10.0.0.0/8")
