"""No request meets a connection that its endpoint is closing, as `connections.keepalive_idle` closes it before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.free_ports import FreePorts
from tests.bench.keepalive_race import L7, Race, run

pytestmark = pytest.mark.measures
REQUESTS, CLIENTS = 240, 60


def test_requests_around_the_moment_at_which_endpoints_close() -> None:
    """Three pauses of 5 s, on all engines at once: the drill is mostly waiting. The full one has 10,000 requests."""
    free = FreePorts()
    here = [subject for subject in engines_on_host(L7) if subject.binary is not None]
    with ThreadPoolExecutor(len(here)) as pool:
        asked = [pool.submit(run, each, REQUESTS, CLIENTS, (free.take(), free.take())) for each in here]
        races: list[Race] = [each.result() for each in asked]
    assert {race.engine: dict(race.failed) for race in races} == {race.engine: {} for race in races}
    assert all(race.asked >= REQUESTS for race in races)
    assert {race.engine for race in races if race.lost} == set()


def test_the_drill_finds_a_time_that_is_too_long() -> None:
    """With a minute some requests are lost on nginx, whatever becomes of them."""
    subject = next(each for each in engines_on_host(["nginx"]) if each.binary is not None)
    free = FreePorts()
    assert run(subject, REQUESTS, CLIENTS, (free.take(), free.take()), "60s").lost
