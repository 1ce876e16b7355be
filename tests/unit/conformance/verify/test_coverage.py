"""What `lbgen verify` says that it does not try."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lbgen
from lbgen.conformance.verify.coverage import list_fields, topology_fields
from lbgen.plan.tier_links import placeholder_addresses
from lbgen.plan.tiers import tiers
from tests.support.coverage import not_tried

EXAMPLES = Path(__file__).parents[4] / "examples"


def plan_of(pool: dict[str, Any], **route: Any) -> lbgen.Plan:
    data = {
        "version": 1,
        "name": "t",
        "profile": "minimal",
        "listeners": {"web": {"port": 8080}},
        "pools": {"a": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}], **pool}},
        "routes": [{"name": "r", "forward": "a", **route}],
    }
    return lbgen.plan(lbgen.load(data))


def test_a_pool_of_one_endpoint_is_tried_by_the_share_that_it_gets() -> None:
    plan = lbgen.plan(
        lbgen.load(
            {
                "version": 1,
                "name": "t",
                "listeners": {"web": {"port": 8080}},
                "pools": {name: {"endpoints": [{"address": f"10.0.0.{n}:80"}]} for n, name in enumerate("ab", 1)},
                "routes": [
                    {"name": "r", "forward": [{"pool": "a", "weight": 9}, {"pool": "b", "weight": 1}]},
                ],
            }
        )
    )
    assert not_tried(plan) == ()


@pytest.mark.parametrize("example", sorted(path.parent.name for path in EXAMPLES.glob("*/topology.yaml")))
def test_every_field_of_the_examples_is_tried(example: str) -> None:
    topology = lbgen.load(EXAMPLES / example / "topology.yaml")
    if topology.model.tiers is None:
        plans = [lbgen.plan(topology)]
    else:
        plans = [tier.plan for tier in tiers(topology, None, placeholder_addresses(topology, {}))]
    assert [field for plan in plans for field in not_tried(plan)] == []


def test_fields_that_no_case_tries_are_named() -> None:
    assert not_tried(plan_of({})) == ()
    assert not_tried(plan_of({"slow_start": "10s"})) == ("pools.a.slow_start",)
    found = not_tried(plan_of({}, retries={"max": 1, "on": ["reset"], "budget": "20%"}))
    assert found == ("routes[r].retries.budget",)
    assert "routes[r].timeouts.response" in not_tried(plan_of({}, rate_limit={"rate": "1/s", "key": "route"}))


def test_a_case_that_every_engine_refuses_tries_nothing() -> None:
    assert not_tried(plan_of({}), refused="6.connect") == ("routes[r].timeouts.connect",)


def test_every_part_of_a_health_check_is_a_field() -> None:
    found = topology_fields(plan_of({"health": {"active": {"path": "/ok"}}}))
    parts = {field.rpartition(".")[2] for field in found if field.startswith("pools.a.health.active")}
    assert parts == {"path", "interval", "timeout", "fall", "rise", "expect[0]"} or "expect" in parts


def test_fields_of_one_name_are_listed_together() -> None:
    routes = [f"routes[r{number}].cors" for number in range(12)]
    names = ", ".join(f"r{number}" for number in range(10))
    assert list_fields([*routes, "pools.a.slow_start", "metrics"]) == [
        f"routes[*].cors: {names} and 2 more",
        "pools.a.slow_start",
        "metrics",
    ]
