"""What a feature adds, and whether it is more than the machine does by itself."""

from __future__ import annotations

import random

import pytest

from lbgen.bench.added import Added
from lbgen.bench.cost import WHOLE, costs_of
from lbgen.bench.load import Load
from lbgen.bench.report import MeasuredEngine, Sample, Spread

NGINX = MeasuredEngine("nginx", "1.31.3", 9)


def sample(micros: float, p50: float) -> Sample:
    return Sample(Load(1000, 1000.0, p50, 5.0, 0, 0), micros / 1000, 1.0)


def test_the_price_is_what_the_whole_topology_takes_more_in_the_same_round() -> None:
    whole = [sample(micros, 1.0) for micros in (50, 52, 80, 82, 60, 62)]  # the machine drifts between rounds
    less = [sample(micros, 0.5) for micros in (41, 71, 51)]
    found = costs_of(NGINX, 100, {WHOLE: whole, "access_log": less}, {})
    (price,) = found.prices
    assert price.cpu_us.spread.rounds == pytest.approx((10.0, 10.0, 10.0))
    assert price.cpu_us.pairs == pytest.approx((-2.0, -2.0, -2.0))
    assert price.cpu_us.measurable
    assert price.p50_ms.spread.median == pytest.approx(0.5)
    assert found.cpu_us.median == pytest.approx(61.0)


@pytest.mark.parametrize(
    ("rounds", "pair", "measurable"),
    [
        ((3.0, 4.0, 5.0), 0.5, True),
        ((-3.0, -4.0, -5.0), 0.5, True),
        ((3.0, 4.0, 5.0), 4.5, False),  # the whole topology differs as much from itself
        ((0.5, 9.0, 1.0), 0.5, False),  # the rounds do not agree
        ((-3.0, 4.0, 5.0, -1.0), 0.1, False),
        ((4.0,), 0.1, False),  # one round says nothing
    ],
)
def test_what_drowns_is_not_measurable(rounds, pair: float, measurable: bool) -> None:
    assert Added(Spread(rounds), (pair, -pair, pair, -pair)[: len(rounds)]).measurable is measurable


def test_the_interval_is_that_of_students_t() -> None:
    # Pooled variance: (2 / 1.5 + 3 * 0.25 / 2) / 5; t of 5 degrees of freedom: 6.869.
    low, high = Added(Spread((3.0, 4.0, 5.0)), (0.5, -0.5, 0.5)).interval
    assert (low, high) == pytest.approx((4.0 - 2.840, 4.0 + 2.840), abs=0.002)


@pytest.mark.parametrize(("added", "least", "most"), [(0.0, 0, 12), (20.0, 1990, 2000)])
def test_equal_configurations_are_hardly_ever_measurable(added: float, least: int, most: int) -> None:
    """One of 1,000 by chance, so that all of 10 runs agree; a price of 6 standard deviations always shows."""
    dice = random.Random(15)
    shown = 0
    for _ in range(2000):
        whole = [dice.gauss(60 + added, 3) for _ in range(8)]
        less = [dice.gauss(60, 3) for _ in range(4)]
        shown += Added.of(whole, less).measurable
    assert least <= shown <= most
