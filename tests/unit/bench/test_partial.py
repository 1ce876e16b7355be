"""The rounds of an interrupted benchmark."""

from __future__ import annotations

from pathlib import Path

from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import Sample
from lbgen.bench.rounds import Measurement, PartialResults
from tests.unit.bench.test_rounds import FixedRates, subjects

FIRST = (1, LoadShape(50, 200), "nginx")
SAMPLE = Sample(Load(1000, 99.5, 1.0, 5.0, 1, 2, 3.0, 4.0, 0.5), 0.25, 9.0)


def test_rounds_are_read_again(tmp_path: Path) -> None:
    file = tmp_path / "a.json.partial"
    PartialResults(file, {"seconds": 1}).add(FIRST, SAMPLE)
    assert PartialResults(file, {"seconds": 1}).known == {FIRST: SAMPLE}


def test_rounds_of_something_else_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "a.json.partial"
    PartialResults(file, {"seconds": 1}).add(FIRST, SAMPLE)
    assert PartialResults(file, {"seconds": 2}).known == {}
    assert PartialResults(file, {"seconds": 1}).known == {}


def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path) -> None:
    file = tmp_path / "a.json.partial"
    PartialResults(file, {}).add(FIRST, SAMPLE)
    with file.open("a", encoding="utf-8") as out:
        out.write('{"round": 2, "sha')
    again = PartialResults(file, {})
    assert again.known == {FIRST: SAMPLE}
    second = (2, LoadShape(50), "nginx")
    again.add(second, SAMPLE)
    assert PartialResults(file, {}).known == {FIRST: SAMPLE, second: SAMPLE}


def test_only_what_is_missing_is_measured(tmp_path: Path) -> None:
    file, asked = tmp_path / "a.json.partial", []

    class Counted(FixedRates):
        def run(self, shape, target, place, seconds, look) -> Load:
            if seconds != 1:  # of the warm-up
                asked.append((shape, place))
                if len(asked) == 5:
                    raise KeyboardInterrupt
            return super().run(shape, target, place, seconds, look)

    def measure():
        kept = PartialResults(file, {})
        return Measurement(subjects(), Counted(), [LoadShape(50)], 3, 2, None, (0.25,), lambda step: None, kept).run()

    try:
        measure()
    except KeyboardInterrupt:
        assert len(asked) == 5
    whole = measure()
    assert len(whole) == 12
    assert len(asked) == 5 + 8  # four rounds were kept
    assert len({(name, shape) for name, shape, _ in whole}) == 6
