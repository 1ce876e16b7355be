"""What a feature adds, and whether it is more than the machine does by itself."""

from __future__ import annotations

import random

import pytest

from lbgen.bench.cost import WHOLE, Added, costs_of
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
    assert price.cpu_us.noise == pytest.approx(2.0)
    assert price.cpu_us.measurable
    assert price.p50_ms.spread.median == pytest.approx(0.5)
    assert found.cpu_us.median == pytest.approx(61.0)


@pytest.mark.parametrize(
    ("rounds", "noise", "measurable"),
    [
        ((3.0, 4.0, 5.0), 1.0, True),
        ((-3.0, -4.0, -5.0), 1.0, True),
        ((3.0, 4.0, 5.0), 4.5, False),
        ((-3.0, 4.0, 5.0, -1.0), 1.0, False),
    ],
)
def test_what_drowns_is_not_measurable(rounds, noise: float, measurable: bool) -> None:
    assert Added(Spread(rounds), noise).measurable is measurable


def test_equal_configurations_are_rarely_measurable() -> None:
    dice = random.Random(15)
    shown = 0
    for _ in range(500):
        whole = [sample(dice.gauss(60, 3), 1.0) for _ in range(8)]
        less = [sample(dice.gauss(60, 3), 1.0) for _ in range(4)]
        (price,) = costs_of(NGINX, 100, {WHOLE: whole, "same": less}, {}).prices
        shown += price.cpu_us.measurable
    assert shown < 10  # 1 in 50
