"""Times of a route -> HAProxy's timers, and what the filter keeps."""

from __future__ import annotations

import pytest

from lbgen.engines.haproxy.times import connect, falls_short, kept, silence
from lbgen.plan.model import Forward, HeaderEdits, Target, Timeouts
from lbgen.plan.policy import Retries, RetryCause

ON_TIMEOUT = Retries(1, frozenset({RetryCause.TIMEOUT}), ())
ON_STATUS = Retries(1, frozenset(), (503,))


def forward(response: int, idle: int, request: int = 0, retries: Retries | None = None) -> Forward:
    target = Target("p", 1, HeaderEdits(), "")
    return Forward((target,), Timeouts(1_000, response, idle, request), retries=retries)


@pytest.mark.parametrize(
    ("action", "own", "filter_keeps"),
    [
        (forward(5_000, 5_000), 5_000, ""),
        (forward(5_000, 60_000), 0, "5000 60000 0 0"),
        (forward(60_000, 5_000), 0, "60000 5000 0 0"),
        (forward(5_000, 0), 0, "5000 0 0 0"),
        (forward(0, 5_000), 0, "0 5000 0 0"),
        (forward(0, 0), 0, ""),
        (forward(5_000, 5_000, 9_000), 0, "5000 5000 9000 9000"),
        (forward(5_000, 60_000, 0, ON_STATUS), 0, "5000 60000 0 0"),
        (forward(5_000, 60_000, 0, ON_TIMEOUT), 5_000, ""),
        (forward(60_000, 5_000, 0, ON_TIMEOUT), 60_000, "0 5000 0 0"),
        (forward(5_000, 5_000, 2_000, ON_TIMEOUT), 2_000, "0 0 0 2000"),
    ],
)
def test_one_timer_or_the_filter(action: Forward, own: int, filter_keeps: str) -> None:
    assert silence(action.timeouts, action.retries) == own
    assert kept(action) == filter_keeps


def test_a_connection_takes_no_longer_than_the_request() -> None:
    assert connect(Timeouts(3_000, 1, 1, 700)) == 700
    assert connect(Timeouts(0, 1, 1, 700)) == 700
    assert connect(Timeouts(3_000, 1, 1)) == 3_000


def test_only_a_longer_silence_beside_retries_falls_short() -> None:
    assert falls_short(forward(5_000, 60_000, 0, ON_TIMEOUT))
    assert not falls_short(forward(60_000, 5_000, 0, ON_TIMEOUT))
    assert not falls_short(forward(5_000, 60_000))
