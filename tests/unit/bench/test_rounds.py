"""Which rounds are measured, in which order: closed loops, then the rates that each engine can answer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from lbgen.bench.load import BenchProgress, Load, LoadShape
from lbgen.bench.rounds import Measurement
from lbgen.bench.subjects import Subject
from lbgen.bench.target import LoadTarget

TARGET = LoadTarget("web", "app", "/", (("Host", "a.example"),), "pools.app.endpoints[0]")
RATES = {1: 10_000.0, 2: 1000.0, 3: 400.0}  # what the subject at each port answers


class FixedRates:
    """Generators that answer as many requests per second as the subject is said to."""

    def run(self, shape, target, place, seconds, look) -> Load:
        assert target is TARGET
        return Load(100, shape.rate or RATES[place[1]], 1.0, 2.0, 0, 0)


def subjects() -> list[Subject]:
    running = SimpleNamespace(pid=0, agent=None, ensure_alive=lambda: None)
    return [Subject("direct", 1, TARGET), Subject("fast", 2, TARGET, running), Subject("slow", 3, TARGET, running)]


def measured(**options):
    steps: list[BenchProgress] = []
    closed = options.pop("closed", [LoadShape(5), LoadShape(50)])
    chosen = {"rounds": 2, "rates": None, "ladder": (0.25, 0.5), **options}
    samples = Measurement(subjects(), FixedRates(), closed, 3, progress=steps.append, **chosen).run()
    return [(name, shape) for name, shape, _ in samples], steps


def test_subjects_take_turns_and_are_asked_for_rates_below_their_own() -> None:
    found, _ = measured()
    closed = [(name, LoadShape(n)) for n in (5, 50) for name in ("direct", "fast", "slow")]
    rates = [(name, LoadShape(50, 250)) for name in ("direct", "fast", "slow")]
    rates += [(name, LoadShape(50, 500)) for name in ("direct", "fast")]  # slow answers 400
    assert found == closed * 2 + rates * 2


def test_rates_that_were_asked_for_are_sent_to_all() -> None:
    found, _ = measured(rounds=1, rates=(700,))
    assert found[-3:] == [(name, LoadShape(50, 700)) for name in ("direct", "fast", "slow")]
    assert all(shape.rate is None for _, shape in measured(rates=())[0])


def test_the_endpoint_is_not_asked_over_http2() -> None:
    found, _ = measured(rounds=1, rates=(), closed=[LoadShape(5), LoadShape(1, streams=5)])
    assert found[3:] == [(name, LoadShape(1, streams=5)) for name in ("fast", "slow")]


def test_progress_counts_every_round() -> None:
    found, steps = measured()
    assert (steps[-1].done, steps[-1].total) == (len(found), len(found))
    assert steps[0].what == "warming up direct"
    assert steps[0].left == pytest.approx(3 + steps[0].total * 3)
