"""The arithmetic of the benchmark."""

from __future__ import annotations

import pytest

from tests.bench.goals import Result
from tests.bench.measure import Paired, measure_pair
from tests.bench.proxies import count_lines


def test_ratio_of_medians_and_its_spread() -> None:
    paired = Paired((10.0, 20.0, 10.0, 10.0, 10.0), (11.0, 22.0, 11.0, 99.0, 12.0))
    assert paired.ratio == pytest.approx(1.2)
    assert paired.spread == pytest.approx((1.1, 1.2))


def test_one_round_has_no_spread() -> None:
    assert Paired((10.0,), (12.0,)).spread == pytest.approx((1.2, 1.2))


def test_both_sides_alternate() -> None:
    order = []
    figures = iter((1.0, 2.0, 3.0, 4.0))

    def side(name: str):
        return lambda: order.append(name) or next(figures)

    paired = measure_pair(side("A"), side("B"), 2)
    assert order == ["A", "B", "A", "B"]
    assert paired == Paired((1.0, 3.0), (2.0, 4.0))


def test_a_goal_is_judged_by_the_digits_shown() -> None:
    assert Result("minimal", "nginx", 1.104, 1.10).passed
    assert not Result("minimal", "nginx", 1.106, 1.10).passed
    assert Result("minimal", "nginx", 1.2, 1.10, spread=(1.09, 1.3)).passed  # within the spread of its goal
    assert not Result("minimal", "nginx", 1.2, 1.10, spread=(1.11, 1.3)).passed
    assert not Result("minimal", "nginx", None, 1.10, missing="it did not start").passed


def test_code_is_counted_apart(tmp_path) -> None:
    (tmp_path / "nginx.conf").write_text("# why\na\n\n  b\n", encoding="utf-8")
    (tmp_path / "script.js").write_text("c\n", encoding="utf-8")
    (tmp_path / ".lbgen-files").write_text("nginx.conf\n", encoding="utf-8")
    assert count_lines(tmp_path) == (2, 1)
