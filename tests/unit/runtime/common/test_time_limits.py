"""Engines with many routes get more time."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbgen.runtime.common.selection import for_routes
from tests.support.plans import examples


@pytest.mark.parametrize(("routes", "seconds"), [(1, 20), (1_000, 20), (2_000, 40), (10_000, 200)])
def test_it_is_longer_in_proportion_from_a_thousand_routes_on(routes: int, seconds: float) -> None:
    plan = examples()["shop"]
    assert for_routes(replace(plan, routes=plan.routes[:1] * routes), 20) == seconds
