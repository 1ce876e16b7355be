"""Times of clients and routes -> Envoy's clocks for silence, and what is said where one clock has to do."""

from __future__ import annotations

from typing import Any

import pytest

from lbgen.conformance.prepare import plan_of
from lbgen.engines.api import engine
from lbgen.engines.envoy import ENGINE
from lbgen.engines.envoy.timeouts import build_client_timeouts, compute_close_timeout, list_idle_timeouts
from lbgen.engines.verdicts import judge
from lbgen.records import replace


def topology(times: dict[str, Any], client: dict[str, Any] | None = None, **route: Any) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080, **({"timeouts": client} if client else {})}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "r", "forward": "p", "timeouts": times, **route}],
    }


@pytest.mark.parametrize(
    ("times", "head_only", "others"),
    [
        ({"idle": "60s"}, 60_000, 60_000),
        ({"idle": "30s"}, 60_000, 60_000),  # the idle time has a clock of its own, which starts with the wait
        ({"idle": "30s", "response": "10s"}, 30_000, 60_000),
        ({"idle": "1h"}, 3_600_000, 60_000),
        ({"idle": "0s"}, 0, 60_000),
        ({"request": "2s"}, 60_000, 60_000),
    ],
)
def test_a_client_has_its_own_time_for_a_body(times: dict[str, Any], head_only: int, others: int) -> None:
    plan = plan_of(topology(times))
    (found,) = list_idle_timeouts(plan, plan.routes[0], plan.listeners)
    assert (found.head_only, found.others) == (head_only, others)


@pytest.mark.parametrize(
    ("client", "written"),
    [
        ({}, {"stream_idle_timeout": "60s"}),
        ({"client_body": "5s"}, {"stream_idle_timeout": "60s"}),
        ({"client_header": "5s"}, {"request_headers_timeout": "5s", "stream_idle_timeout": "60s"}),
        ({"client_body": "0s"}, {"request_headers_timeout": "60s", "stream_idle_timeout": "0s"}),
        ({"client_header": "0s"}, {"stream_idle_timeout": "0s"}),
    ],
)
def test_a_head_has_a_timer_of_its_own_only_where_its_time_is_shorter(
    client: dict[str, Any], written: dict[str, str]
) -> None:
    plan = plan_of(topology({}, client))
    assert build_client_timeouts(plan.listeners[0], plan.routes) == written


@pytest.mark.parametrize("client", [None, {"client_header": "60s", "client_body": "60s", "keepalive": "75s"}])
def test_a_verdict_is_the_same_whoever_gave_the_time(client: dict[str, Any] | None) -> None:
    _, stops = judge(plan_of(topology({"idle": "1h"}, client)), ENGINE, "1.40")
    assert [stop.message.partition(" is ")[0] for stop in stops] == ["timeouts.idle"]
    _, stops = judge(plan_of(topology({"idle": "1h"}, client, match=[{"methods": ["GET"]}])), ENGINE, "1.40")
    assert not stops  # the route of WebSockets


@pytest.mark.parametrize("name", ["nginx", "haproxy", "envoy", "traefik"])
def test_times_and_logs_that_are_the_usual_ones_may_be_written(name: str) -> None:
    written = topology({"idle": "10s", "response": "10s"}, {"client_header": "60s", "client_body": "60s"})
    found = [
        {
            (str(a.feature), a.verdict.note, a.default)
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
    ("times", "client", "close"),
    [
        ({}, None, 1000),
        ({"idle": "0s"}, None, 1000),
        ({"idle": "10s"}, None, 500),
        ({}, {"keepalive": "5s"}, 250),
        ({"idle": "700ms"}, None, 50),
    ],
)
def test_the_wait_before_a_close_is_a_small_part_of_the_times_that_it_delays(
    times: dict[str, Any], client: dict[str, Any] | None, close: int
) -> None:
    plan = plan_of(topology(times, client))
    assert compute_close_timeout(plan.listeners[0].timeouts, plan.routes) == close


@pytest.mark.parametrize(
    ("http2", "idle", "written"), [(True, "90s", "90s"), (True, "0s", "0s"), (True, "10s", None), (False, "90s", None)]
)
def test_the_end_of_an_http2_response_has_the_longest_idle_time(http2: bool, idle: str, written: str | None) -> None:
    plan = plan_of(topology({"idle": idle}, {}))
    fields = build_client_timeouts(replace(plan.listeners[0], http2=http2), plan.routes)
    assert fields.get("stream_flush_timeout") == written
