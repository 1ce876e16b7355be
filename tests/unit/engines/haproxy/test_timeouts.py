"""Timeouts of a route and of clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.prepare import plan_of
from lbgen.engines.api import Level
from lbgen.engines.haproxy import ENGINE
from lbgen.engines.haproxy.timeouts import server_timeout
from lbgen.plan.model import Timeouts
from tests.support.plans import topology

if TYPE_CHECKING:
    from lbgen.plan.features import Feature


@pytest.mark.parametrize(
    ("response", "idle", "one_timer"),
    [(5_000, 5_000, 5_000), (5_000, 60_000, 60_000), (60_000, 5_000, 60_000), (5_000, 0, 0), (0, 5_000, 0), (0, 0, 0)],
)
def test_the_longer_time_holds_where_there_is_one_timer(response: int, idle: int, one_timer: int) -> None:
    times = Timeouts(1_000, response, idle)
    assert [server_timeout(times, version) for version in ("2.6", "2.8")] == [one_timer] * 2
    assert [server_timeout(times, version) for version in ("3.0", "3.2")] == [response] * 2


@pytest.mark.parametrize(
    ("response", "idle", "level", "feature"),
    [("60s", "5s", Level.APPROXIMATE, "timeouts.idle"), ("5s", "60s", Level.HABIT, "timeouts.response")],
)
def test_only_a_shorter_idle_time_has_to_be_accepted(response: str, idle: str, level: Level, feature: Feature) -> None:
    plan = plan_of(topology({"timeouts": {"response": response, "idle": idle}}))
    told = ("timeouts.idle", "timeouts.response")
    found = [o for o in ENGINE.objections(plan, "2.8") if o.feature in told]
    assert [(o.verdict.level, o.feature) for o in found] == [(level, feature)]
    newer = [o for o in ENGINE.objections(plan, "3.0") if o.feature in told]
    assert {o.verdict.level for o in newer} == {Level.HABIT}
    text = ENGINE.render(plan, "3.0")[0].text
    assert f"timeout server {response}\n" in text
    assert f"http-response set-timeout server {idle}\n" in text
