"""Networks of clients as a condition behind trusted proxies: what would not hold there is refused."""

from __future__ import annotations

from typing import Any

import pytest

import lbgen
from tests.support.plans import topology

OFFICE = {"match": [{"path": {"prefix": "/office"}, "sources": ["192.0.2.0/24"]}]}
PROXIES = {"trusted_proxies": ["10.0.0.0/8"]}
GUARDS: dict[str, dict[str, Any]] = {
    "access": {"access": {"deny": ["192.0.2.9/32"]}},
    "auth": {"auth": {"forward": {"url": "http://10.0.0.9:9091/"}}},
    "rate": {"rate_limit": {"rate": "1/s", "key": "client_ip"}},
    "body": {"max_body": "1KiB"},
    "compression": {"compression": {"types": ["text/html"]}},
    "buffering": {"buffering": {"request": True}},
}


def refusals(route: dict[str, Any], listener: dict[str, Any], *others: dict[str, Any]) -> set[str]:
    data = topology({**OFFICE, **route}, listener=listener)
    data["routes"] += others
    try:
        lbgen.render(lbgen.plan(lbgen.load(data)), engine="envoy", accept=("all",))
    except lbgen.LbgenError as stop:
        return {each.field for each in stop.diagnostics}
    return set()


@pytest.mark.parametrize("guard", GUARDS.values(), ids=GUARDS)
def test_filters_of_a_route_by_networks_are_refused_behind_proxies(guard: dict[str, Any]) -> None:
    assert refusals(guard, PROXIES) == {"routes[0].match[0].sources"}
    assert refusals(guard, {}) == set()


def test_so_are_those_of_another_route_for_the_same_requests() -> None:
    wider = {"name": "all", "forward": "p", "max_body": "1KiB"}
    apart = {**wider, "match": [{"path": {"prefix": "/apart"}}]}
    assert refusals({}, PROXIES, wider) == {"routes[0].match[0].sources"}
    assert refusals({}, PROXIES, apart) == set()


def test_sticky_cookies_are_refused_there() -> None:
    data = topology(OFFICE, listener=PROXIES, pool={"sticky": {"cookie": "LB"}})
    with pytest.raises(lbgen.LbgenError, match="before it has the client's address"):
        lbgen.render(lbgen.plan(lbgen.load(data)), engine="envoy", accept=("all",))
