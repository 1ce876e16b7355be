"""Compare two benchmarks that were written as JSON: what changed beyond the noise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from lbgen.bench.load import LoadShape
from lbgen.bench.report import DIRECT, BenchReport, Row, Spread
from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.json_types import Printed

CHANGED = 0.1  # of the median; less is noise between two runs, however close the rounds of each are

_Rows = dict[tuple[str, LoadShape], Row]


class Change(Printed, frozen=True):
    """A figure whose rounds are all on one side of those before, and whose median is more than 10 % away."""

    subject: str
    load: Annotated[str, Meta(description="The shape of the load.")]
    figure: Annotated[str, Meta(description="With its unit.")]
    before: float
    after: float
    better: bool

    def __str__(self) -> str:
        change = f"{self.before:.4g} to {self.after:.4g}, x{self.after / self.before:.2f}" if self.before else "from 0"
        return f"{self.subject}, {self.load}: {self.figure} {'better' if self.better else 'worse'}: {change}"


class Comparison(Printed, frozen=True):
    """What changed between two benchmarks."""

    changes: tuple[Change, ...]
    notes: Annotated[tuple[str, ...], Meta(description="What else differs, in sentences.")]
    compared_rows: int


def read_report(path: Path) -> BenchReport:
    """What `lbgen bench --json` wrote. Raises UsageError LB431 where it is no such file, or cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=BenchReport)
    except OSError as error:
        raise UsageError(Diagnostic("LB431", f"{path} cannot be read: {error.strerror}")) from None
    except msgspec.DecodeError as error:
        message = f"{path} is not the JSON of a benchmark: {error}"
        hint = "`lbgen bench TOPOLOGY -o FILE` writes one"
        raise UsageError(Diagnostic("LB431", message, hint=hint)) from None


def compare(before: BenchReport, after: BenchReport) -> Comparison:
    """Each figure that both measured under the same shape of load. Raises UsageError LB431 where there is none."""
    old, new = _rows(before), _rows(after)
    common = [key for key in old if key in new]
    if not common:
        message = "the benchmarks have no row in common"
        raise UsageError(Diagnostic("LB431", message, hint="give both the same --connections and --rates"))
    changes = [change for key in common for change in _changes(key, old[key], new[key])]
    notes = [
        f"{what} differs: {before_} and {after_}"
        for what, before_, after_ in (
            ("the machine", _machine(before), _machine(after)),
            ("the request", before.load.target, after.load.target),
            ("lbgen", before.lbgen, after.lbgen),
            *((f"the version of {name}", *pair) for name, pair in _versions(before, after).items()),
        )
        if before_ != after_
    ]
    notes += [f"without an engine too, so the machine's speed may differ: {x}" for x in changes if x.subject == DIRECT]
    lonely = sorted({f"{name}, {shape.title}" for name, shape in old.keys() ^ new.keys()})
    notes += [f"only in one of them: {each}" for each in lonely]
    return Comparison(tuple(x for x in changes if x.subject != DIRECT), tuple(notes), len(common))


def _rows(report: BenchReport) -> _Rows:
    return {(row.subject, row.shape): row for row in report.rows}


def _machine(report: BenchReport) -> str:
    return f"{report.system}, {report.cores} cores, {report.cpu}"


def _versions(before: BenchReport, after: BenchReport) -> Mapping[str, tuple[str, str]]:
    old, new = ({each.engine: each.version for each in report.engines} for report in (before, after))
    return {name: (old[name], new[name]) for name in old if name in new}


def _changes(key: tuple[str, LoadShape], before: Row, after: Row) -> Iterator[Change]:
    subject, shape = key
    figures: list[tuple[str, Spread | None, Spread | None, bool]] = [
        ("CPU us/request", before.cpu_us_per_request, after.cpu_us_per_request, False),
        ("p99 ms", before.p99_ms, after.p99_ms, False),
    ]
    if shape.rate is None:
        figures.insert(0, ("requests/s", before.requests_per_second, after.requests_per_second, True))
    else:
        figures.insert(0, ("p50 ms", before.p50_ms, after.p50_ms, False))
    for name, old, new, more_is_better in figures:
        if old is not None and new is not None and _differs(old, new):
            better = (new.median > old.median) is more_is_better
            yield Change(subject, shape.title, name, old.median, new.median, better)
    old_failed, new_failed = (row.errors + row.not_2xx_3xx for row in (before, after))
    if (old_failed == 0) is not (new_failed == 0):
        yield Change(subject, shape.title, "requests without a good answer", old_failed, new_failed, new_failed == 0)


def _differs(old: Spread, new: Spread) -> bool:
    apart = max(old.rounds) < min(new.rounds) or max(new.rounds) < min(old.rounds)
    return apart and abs(new.median - old.median) > CHANGED * old.median
