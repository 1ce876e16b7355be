"""What a feature adds, and whether it is more than the machine does by itself."""

from __future__ import annotations

import random

import pytest

from lbgen.bench.cost import WHOLE, Added, costs_of
from lbgen.bench.load import Load
from lbgen.bench.report import MeasuredEngine, Sample

NGINX = MeasuredEngine("nginx", "1.31.3", 9)


def sample(micros: float, p50: float) -> Sample:
    return Sample(Load(1000, 1000.0, p50, 5.0, 0, 0), micros / 1000, 1.0)


def test_the_price_is_what_the_whole_topology_takes_more_at_the_same_time() -> None:
    pairs = [(sample(50 + drift, 1.0), sample(40 + drift, 1.0)) for drift in (0, 30, 10)]  # the machine drifts
    steady = [{WHOLE: sample(90, p50), "access_log": sample(90, p50 - 0.5)} for p50 in (1.0, 2.0, 1.5)]
    found = costs_of(NGINX, 100, {"access_log": pairs}, steady, {})
    (price,) = found.features
    assert price.cpu_us_per_request.rounds == pytest.approx((10.0, 10.0, 10.0))
    assert price.cpu_measurable
    assert price.p50_ms.median == pytest.approx(0.5)
    assert found.cpu_us_per_request.median == pytest.approx(60.0)


def test_a_topology_without_features_has_figures() -> None:
    found = costs_of(NGINX, 100, {}, [{WHOLE: sample(90, 1.0)}], {})
    assert (found.cpu_us_per_request.median, found.features) == (pytest.approx(90.0), ())


@pytest.mark.parametrize(
    ("rounds", "other", "measurable"),
    [
        ((3.0, 3.1, 3.2, 2.9), (0.1, -0.1, 0.1, -0.1), True),
        ((-3.0, -3.1, -3.2, -2.9), (0.1, -0.1, 0.1, -0.1), True),
        ((3.0, 3.1, 3.2, 2.9), (9.0, -9.0, 9.0, -9.0), False),  # the machine does as much by itself
        ((0.5, 9.0, 1.0, 0.1), (0.1, -0.1, 0.1, -0.1), False),  # the rounds do not agree
        ((4.0,), (0.1,), False),  # one round says nothing
    ],
)
def test_what_drowns_is_not_measurable(rounds, other, measurable: bool) -> None:
    assert Added.of({"a": rounds, "b": other})["a"].measurable is measurable


def test_the_interval_is_that_of_students_t() -> None:
    # Variances: (2 + 0.5) / 4 pooled, 1 of the first alone; t of 4 degrees of freedom: 8.610.
    found = Added.of({"a": (3.0, 4.0, 5.0), "b": (0.0, 0.5, -0.5)})
    half = 8.610 / 3**0.5
    assert found["a"].interval == pytest.approx((4.0 - half, 4.0 + half), abs=0.002)
    assert found["b"].interval[1] == pytest.approx(half * 0.625**0.5, abs=0.002)


@pytest.mark.parametrize(("added", "least", "most"), [(0.0, 0, 12), (12.0, 1990, 2000)])
def test_equal_configurations_are_hardly_ever_measurable(added: float, least: int, most: int) -> None:
    """One of 1,000 by chance, so that all of 10 runs agree; a price of 4 standard deviations nearly always shows."""
    dice = random.Random(15)
    shown = 0
    for _ in range(200):
        rounds = {str(n): [dice.gauss(added, 3) for _ in range(5)] for n in range(10)}
        shown += sum(each.measurable for each in Added.of(rounds).values())
    assert least <= shown <= most
