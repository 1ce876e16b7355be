"""Times of clients and routes -> Envoy's clocks for silence, and what is said where one clock has to do."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from lbgen.conformance.prepare import plan_of
from lbgen.engines.api import engine
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.timeouts import build_client_timeouts, build_try_timeouts, compute_idle_timeout
from lbgen.engines.verdicts import judge
from lbgen.plan.model import ClientTimeouts, Forward, Timeouts
from tests.support import plans


def topology(times: dict[str, Any], client: dict[str, Any] | None = None) -> dict[str, Any]:
    return plans.topology({"timeouts": times}, listener={"timeouts": client} if client else None)


@pytest.mark.parametrize(
    ("times", "clock", "policy"),
    [
        ({"response": "60s", "idle": "60s"}, 60_000, {}),
        ({"response": "10s", "idle": "10s"}, 60_000, {"per_try_idle_timeout": "10s"}),
        ({"response": "5s", "idle": "60s"}, 60_000, {"per_try_timeout": "5s"}),
        ({"response": "60s", "idle": "1h"}, 3_600_000, {"per_try_timeout": "60s"}),
        ({"response": "5s", "idle": "10s"}, 60_000, {"per_try_idle_timeout": "10s", "per_try_timeout": "5s"}),
        ({"response": "60s", "idle": "5s"}, 60_000, {}),  # one clock: the longer time holds
        ({"response": "0s", "idle": "0s"}, 0, {}),
    ],
)
def test_a_request_has_the_longest_of_its_times(times: dict[str, Any], clock: int, policy: dict[str, str]) -> None:
    plan = plan_of(topology(times))
    action = plan.routes[0].action
    assert isinstance(action, Forward)
    found = compute_idle_timeout(action.timeouts, plan.listeners[0].timeouts, 1)
    assert (found, build_try_timeouts(action.timeouts, found)) == (clock, policy)


def test_a_request_outlasts_all_its_tries() -> None:
    assert compute_idle_timeout(Timeouts(1_000, 5_000, 5_000), ClientTimeouts(), 3) == 60_500
    assert compute_idle_timeout(Timeouts(1_000, 60_000, 60_000), ClientTimeouts(), 2) == 122_500
    assert compute_idle_timeout(Timeouts(0, 60_000, 60_000), ClientTimeouts(), 2) == 0


def test_only_an_idle_time_below_the_response_time_stops() -> None:
    for times, stopped in (({"idle": "1h"}, []), ({"response": "10s", "idle": "1s"}, ["timeouts.idle"])):
        _, stops = judge(plan_of(topology(times)), ENGINE, "1.40")
        assert [stop.message.partition(" is ")[0] for stop in stops] == stopped


@pytest.mark.parametrize("name", ["nginx", "haproxy", "envoy", "traefik"])
def test_times_and_logs_that_are_the_usual_ones_may_be_written(name: str) -> None:
    written = topology({"idle": "10s", "response": "10s"}, {"client_header": "60s", "client_body": "60s"})
    found = [
        {
            (a.feature, a.verdict.note, a.default)
            for a in judge(plan_of(each), engine(name), engine(name).versions[0])[0]
            if a.verdict.note
        }
        for each in (topology({"idle": "10s", "response": "10s"}), {**written, "access_log": "json"})
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize("profile", ["minimal", "production", "edge", "low-latency"])
def test_profiles_start_without_accepting_anything(profile: str) -> None:
    plan = plan_of({**topology({}), "profile": profile})
    assert not judge(plan, ENGINE, "1.40")[1]


@pytest.mark.parametrize(
    ("http2", "idle", "written"), [(True, "90s", "90s"), (True, "0s", "0s"), (True, "10s", None), (False, "90s", None)]
)
def test_the_end_of_an_http2_response_has_the_longest_idle_time(http2: bool, idle: str, written: str | None) -> None:
    plan = plan_of(topology({"idle": idle}, {}))
    fields = build_client_timeouts(replace(plan.listeners[0], http2=http2), plan.routes)
    assert fields.get("stream_flush_timeout") == written
