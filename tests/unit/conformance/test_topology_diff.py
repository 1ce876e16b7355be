"""`lbgen diff`: what changes for those who use a topology."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import lbgen
from lbgen.conformance.topology_diff import Comparison, compare
from lbgen.plan.simulate import simulate
from lbgen.runtime.common.certificates import write_self_signed

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

SHOP = yaml.safe_load((Path(__file__).parents[3] / "examples/shop/topology.yaml").read_text(encoding="utf-8"))


def changed(change: Any) -> Comparison:
    """From the shop to the shop after `change`."""
    other = copy.deepcopy(SHOP)
    change(other)
    return compare(lbgen.plan(lbgen.load(SHOP)), lbgen.plan(lbgen.load(other)))


def test_what_is_written_in_another_order_is_the_same() -> None:
    def shuffle(shop: dict[str, Any]) -> None:
        shop["pools"] = dict(reversed(shop["pools"].items()))
        shop["routes"][3:5] = reversed(shop["routes"][3:5])

    found = changed(shuffle)
    assert found.same
    assert found.asked > 200


def test_a_request_of_a_tls_listener_is_one_by_https(tmp_path: Path) -> None:
    write_self_signed(tmp_path / "a.crt", tmp_path / "a.key", ("shop.example",))
    tls = {"certificates": [{"cert": str(tmp_path / "a.crt"), "key": str(tmp_path / "a.key")}]}

    def plan(status: int) -> Plan:
        routes = [{"name": "r", "hosts": ["shop.example"], "respond": {"status": status}}]
        listeners = {"web": {"port": 8443, "tls": tls}}
        return lbgen.plan(lbgen.load({"version": 1, "name": "x", "listeners": listeners, "routes": routes}))

    (found,) = {change.curl.rpartition(" ")[2] for change in compare(plan(200), plan(204)).requests}
    assert found == "https://shop.example:8443/"


def test_a_condition_that_changes_shows_in_the_smallest_request() -> None:
    found = changed(lambda shop: shop["routes"][0]["match"][0]["headers"].update({"x-canary": "yes"}))
    assert [change.routes for change in found.requests] == [("api", "canary"), ("canary", "api")]
    first, second = found.requests
    assert first.curl == "curl -isS --path-as-is -H 'Host: shop.example' -H 'x-canary: yes' http://127.0.0.1:8080/api"
    assert dict(second.request.headers) == {"Host": "shop.example", "x-canary": "true"}
    assert "api-v1 (95 %)" in first.before
    assert first.after == "api-v2 gets GET /api (route canary)"
    assert not found.fields


@pytest.mark.parametrize(
    ("change", "field", "before", "after"),
    [
        (lambda s: s["routes"][1]["timeouts"].update(response="5s"), "routes.api.timeouts.response", "10000", "5000"),
        (lambda s: s["pools"]["api-v1"].pop("balance"), "pools.api-v1.balance", "least_connections", "round_robin"),
        (lambda s: s["listeners"]["web"].update(port=81), "listeners.web.port", "8080", "81"),
        (
            lambda s: s["routes"][1].update(retries={"max": 1, "on": [502]}),
            "routes.api.retries",
            "none",
            "{ max: 1, causes: none, statuses: 502 }",
        ),
    ],
)
def test_what_no_request_shows_is_told_by_field(change: Any, field: str, before: str, after: str) -> None:
    found = changed(change)
    assert [(f.field, f.before, f.after) for f in found.fields] == [(field, before, after)]
    assert found.fields[0].meaning


def test_other_passwords_and_pages_are_told_without_what_is_in_them(tmp_path: Path) -> None:
    hashes = ("$1$abcdefgh$" + "a" * 22, "$1$abcdefgh$" + "b" * 22)

    def plan(number: int) -> Plan:
        (tmp_path / "users.htpasswd").write_text(f"anna:{hashes[number]}\n", encoding="utf-8")
        topology = copy.deepcopy(SHOP) | {"error_pages": {"5xx": {"body": f"page {number}\n"}}}
        topology["routes"][1]["auth"] = {"basic": {"users": str(tmp_path / "users.htpasswd")}}
        return lbgen.plan(lbgen.load(topology))

    found = compare(plan(0), plan(1))
    assert [(f.field, f.before, f.after) for f in found.fields] == [
        ("listeners.web.error_pages", "5xx (text/plain)", "5xx (text/plain), changed"),
        (
            "routes.api.auth",
            "basic: the password of anna (users, realm restricted)",
            "basic: the password of anna (users, realm restricted), changed",
        ),
    ]
    assert not any(each in str(found.as_dict()) for each in hashes)


def test_a_counterexample_is_answered_differently() -> None:
    def change(shop: dict[str, Any]) -> None:
        shop["routes"][4]["redirect"]["status"] = 308
        shop["routes"][3]["response_headers"]["set"]["cache-control"] = "no-store"
        del shop["routes"][6]

    found = changed(change)
    other = copy.deepcopy(SHOP)
    change(other)
    plans = [lbgen.plan(lbgen.load(data)) for data in (SHOP, other)]
    assert len(found.requests) >= 3
    for each in found.requests:
        one, two = (simulate(plan, each.request) for plan in plans)
        assert (one.route or "", two.route or "") == each.routes
        assert each.before != each.after
    assert [(f.field, f.meaning) for f in found.fields] == [("routes.health", "a route less")]
