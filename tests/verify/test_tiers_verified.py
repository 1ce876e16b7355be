"""Tiers are verified one by one, and what is behind through what is in front."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.conformance.verify import tiers
from lbgen.engines.api import engine
from tests.engines.test_local_runtime import need
from tests.support.hybrid import hybrid

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.plan.tier_simulation import Front

pytestmark = [pytest.mark.engines]
PORT = 24_790


@pytest.fixture(autouse=True)
def engines() -> None:
    for name in ("haproxy", "nginx"):
        need(name)


def test_green_through_the_edge() -> None:
    report = lbgen.verify(hybrid("verified", PORT), requests=60)
    assert not report.broken
    asked = {result.subject.partition(":")[0] for result in report.results}
    assert asked == {"edge", "web", "web through edge"}
    assert sum(result.subject.startswith("web through edge") for result in report.results) > 20


def test_an_edge_that_clients_do_not_know_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that name their own port to clients, as they would without tiers."""
    node = tiers._node

    def forgetful(plan: Plan, front: Front, port: int, door: int) -> Plan:
        made = node(plan, front, port, door)
        return replace(made, listeners=tuple(replace(x, public_port=None) for x in made.listeners))

    monkeypatch.setattr(tiers, "_node", forgetful)
    topology = hybrid("verified", PORT)
    found = tiers.verify_through_front(
        topology, {"edge": _engines("haproxy"), "web": _engines("nginx")}, (60, 1), (), lambda x: None
    )
    report = tiers.merge_reports("verified", found)
    assert not report.green
    assert any("x-forwarded-port" in each.detail or "location" in each.detail.lower() for each in report.differences)


def test_what_cannot_be_asked_through_the_edge_is_said() -> None:
    topology = hybrid("verified", PORT, edge="nftables")
    found = tiers.verify_through_front(
        topology, {"edge": _engines("nftables"), "web": _engines("nginx")}, (60, 1), (), lambda x: None
    )
    assert "the kernel does not forward to loopback" in tiers.merge_reports("verified", found).untried[0]


def _engines(name: str) -> list[Engine]:
    return [engine(name)]
