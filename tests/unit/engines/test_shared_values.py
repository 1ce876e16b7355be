"""Error pages with placeholders: what an engine cannot say in them is refused, and the others can."""

from __future__ import annotations

from typing import Any

import pytest

import lbgen
from lbgen.engines.api import Level, engine
from tests.support.plans import topology

L7 = ("envoy", "haproxy", "nginx", "traefik")
BEHIND = {"trusted_proxies": ["10.0.0.0/8"]}


def refusals(page: dict[str, Any], listener: dict[str, Any], route: dict[str, Any] | None = None) -> dict[str, str]:
    data = topology(route or {}) | {"error_pages": {"5xx": page}, "listeners": {"web": {"port": 8080, **listener}}}
    plan = lbgen.plan(lbgen.load(data))
    return {
        name: found.verdict.note
        for name in L7
        for found in engine(name).objections(plan, engine(name).versions[0])
        if found.verdict.level is Level.REFUSED
    }


@pytest.mark.parametrize(
    ("page", "listener", "refused"),
    [
        ({"body": "{client_ip} {host} {request_id} {header.x-a} {cookie.c}"}, BEHIND, ()),
        ({"body": "{client_ip}"}, {"proxy_protocol": "accept"}, ()),
        ({"body": "{client_ip}"}, {"proxy_protocol": "accept", **BEHIND}, ("nginx",)),
        ({"body": "{client_port}"}, {}, ()),
        ({"body": "{client_port}"}, BEHIND, ("traefik",)),
        ({"body": "{client_port}"}, {"proxy_protocol": "accept", **BEHIND}, ("envoy", "traefik")),
        ({"body": "{header.x-forwarded-proto}"}, BEHIND, ("traefik",)),
        ({"body": "{header.x!}"}, {}, ("nginx",)),
        ({"body": "{uri}", "status": 200}, {}, ("haproxy",)),
        ({"body": "literal", "status": 200}, {}, ()),
        ({"body": "a" * 14_000}, {}, ()),
        ({"body": "a" * 14_000 + "{uri}"}, {}, ("haproxy",)),  # a target may be long, and the page has one buffer
    ],
)
def test_who_refuses_a_page(page: dict[str, Any], listener: dict[str, Any], refused: tuple[str, ...]) -> None:
    assert tuple(sorted(refusals(page, listener))) == refused


def test_nginx_refuses_a_client_whom_two_may_state_in_any_value() -> None:
    edits = {"request_headers": {"set": {"x-ip": "{client_ip}"}}}
    assert "nginx" in refusals({"body": "x"}, {"proxy_protocol": "accept", **BEHIND}, edits)


def test_the_id_of_a_page_is_made_before_anything_can_refuse() -> None:
    listener = {"web": {"port": 8080, "access": {"deny": ["192.0.2.0/24"]}}}
    for body, early in (("{request_id}", True), ("{uri}", False)):
        data = topology({}) | {"error_pages": {"403": {"body": body}}, "listeners": listener}
        files = lbgen.render(lbgen.plan(lbgen.load(data)), engine="haproxy").files
        made = next(file.text for file in files if file.name == "haproxy.cfg")
        assert made.count("set-header X-Request-Id") == 1
        assert (made.index("set-header X-Request-Id") < made.index("deny deny_status 403")) is early
