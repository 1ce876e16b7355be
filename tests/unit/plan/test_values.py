"""What values with placeholders become for a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
import yaml

from lbgen.plan import simulate
from lbgen.plan.request import Request
from lbgen.plan.resolve import plan
from lbgen.plan.values import Fact, Placeholder, Template, join_parts, may_be_empty, read_value
from lbgen.spec.load import load

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

TOPOLOGY = """
version: 1
name: shop
listeners: { web: { port: 8080 }, behind: { port: 8081, trusted_proxies: [10.0.0.0/8] } }
pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }] } }
routes:
  - name: user
    match: [{ path: { regex: "/u/(?P<user>[a-z]+)(/.*)?" } }]
    forward: app
    request_headers:
      set:
        { x-user: "{user}{2}", x-who: "{client_ip}/{cookie.s}", x-gone: "{header.x-none}",
          x-for: "{header.x-forwarded-for}" }
    response_headers: { set: { x-end: "{endpoint}", x-id: "<{request_id}>" } }
  - { name: to, match: [{ path: { prefix: /to } }], redirect: { to: "https://new.example{uri}", status: 301 } }
  - { name: hi, respond: { status: 200, body: "{method} {path} {{x}}" } }
"""


@pytest.fixture(scope="module")
def shop() -> Plan:
    return plan(load(yaml.safe_load(TOPOLOGY)))


def sent(shop: Plan, *headers: tuple[str, str], target: str = "/u/ann/x", **more: str) -> dict[str, str | None]:
    found = simulate.simulate(shop, Request("GET", target, (("Host", "h"), *headers), **more))
    return dict(found.upstreams[0].headers)


def test_values_of_a_request(shop: Plan) -> None:
    found = sent(shop, ("Cookie", 's="1 2"'), ("x-gone", "forged"), client="192.0.2.1")
    assert (found["x-user"], found["x-who"]) == ("ann/x", "192.0.2.1/1 2")
    assert "x-gone" not in found
    assert sent(shop, target="/u/ann")["x-user"] == "ann"


def test_who_may_say_what_proxies_say(shop: Plan) -> None:
    forged = ("X-Forwarded-For", "203.0.113.1")
    assert "x-for" not in sent(shop, forged, client="192.0.2.1")
    behind = sent(shop, forged, client="10.0.0.9", listener="behind")
    assert (behind["x-for"], behind["x-who"]) == ("203.0.113.1", "203.0.113.1/")


def test_what_is_known_by_its_form_only(shop: Plan) -> None:
    found = simulate.simulate(shop, Request("GET", "/u/ann", (("Host", "h"),)))
    assert set(found.free) == {"x-end", "x-id"}
    assert dict(found.patterns)["x-id"] == "<[!-~]+>"


def test_answers_of_the_proxy(shop: Plan) -> None:
    to = simulate.simulate(shop, Request("GET", "/to/a?b=c", (("Host", "h"),)))
    assert (to.status, to.location) == (301, "https://new.example/to/a?b=c")
    assert simulate.simulate(shop, Request("PUT", "/x?y", (("Host", "h"),))).body == "PUT /x {x}"


def test_a_plan_with_values_is_saved_and_read_again(shop: Plan) -> None:
    route = shop.route("user")
    assert msgspec.json.decode(msgspec.json.encode(route), type=type(route)) == route


def test_empty_values() -> None:
    assert may_be_empty(read_value("{query}{header.a}"))
    assert not may_be_empty(read_value("{client_ip}{header.a}"))
    assert not may_be_empty(read_value("={query}"))
    assert join_parts(("a", "", "b")) == "ab"
    assert join_parts(("a", Placeholder(Fact.HOST))) == Template(("a", Placeholder(Fact.HOST)))
