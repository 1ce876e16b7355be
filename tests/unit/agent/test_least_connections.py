"""Shares that follow from counts of connections."""

from __future__ import annotations

import pytest

from lbgen.agent.steering import average, differ, shares
from lbgen.engines.agent_spec import BalancedEndpoint, BalancedPool


def pool(*weights: int) -> BalancedPool:
    return BalancedPool("a", tuple(BalancedEndpoint(f"e{n}", "10.0.0.1", n, x) for n, x in enumerate(weights)))


@pytest.mark.parametrize(
    ("weights", "counts", "percents"),
    [
        ((1, 1), (), (100, 100)),
        ((3, 1), (), (100, 100)),
        ((1, 1), (0, 1), (100, 12)),
        ((1, 1), (1000, 0), (1, 100)),
        ((3, 1), (9, 3), (100, 100)),
        ((3, 1), (3, 3), (100, 8)),
        ((0, 1), (5, 5), (None, 100)),
    ],
)
def test_an_endpoint_with_more_connections_for_its_weight_gets_fewer(weights, counts, percents):
    found = shares(pool(*weights), {("10.0.0.1", n): float(count) for n, count in enumerate(counts)})
    assert tuple(found.get(f"e{n}") for n in range(len(weights))) == percents


def test_an_average_follows_in_steps_and_ends():
    key = ("10.0.0.1", 80)
    first = average({}, {key: 9})
    assert first == {key: 3}
    second = average(first, {key: 9})
    assert second[key] == pytest.approx(5)
    for _ in range(30):
        second = average(second, {})
    assert second == {}


def test_small_changes_are_not_loaded():
    assert not differ({}, {"a": {"x": 100, "y": 90}})
    assert differ({}, {"a": {"x": 70}})
    assert not differ({"a": {"x": 70}}, {"a": {"x": 60}})
    assert differ({"a": {"x": 10}}, {"a": {"x": 20}})
