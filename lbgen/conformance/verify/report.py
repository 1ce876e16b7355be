"""The report of a verification: counts by clause and engine, differences, and what was changed to run it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from msgspec import Struct, to_builtins

from lbgen.conformance.runner import CaseState, Result
from lbgen.diagnostics import Diagnostic, counted

if TYPE_CHECKING:
    from lbgen.conformance.case import Case
    from lbgen.conformance.json_types import ReportRecord
    from lbgen.conformance.verify.edited_files import LineChange
    from lbgen.conformance.verify.jobs import Finished
    from lbgen.conformance.verify.time_scaling import Scale

PAIRWISE = "engines agree"


class UnverifiedEngine(Struct, frozen=True):
    """An engine that was not verified, and why: left out, or `broken` when it did not run."""

    engine: str
    reasons: tuple[Diagnostic, ...]
    broken: bool = False


class VerifiedEngine(Struct, frozen=True):
    """`changed`: lines in which the files that ran differ from the topology's own, all of them in times. `edits`: where
    the files of `--rendered` are not what lbgen renders."""

    engine: str
    version: str
    changed: tuple[LineChange, ...] = ()
    edits: tuple[str, ...] = ()


class Report(Struct, frozen=True):
    """`results` hold every case on every engine. `green`: no difference that no verdict names, no engine broke, and
    not every case was refused or skipped.
    `moved_because`: why listeners and endpoints did not have the topology's own addresses, "" when they had.
    `untried`: the fields of the topology that no case tried."""

    name: str
    results: tuple[Result, ...]
    left: tuple[UnverifiedEngine, ...]
    served: tuple[VerifiedEngine, ...]
    scale: Scale
    moved_because: str
    seconds: float
    untried: tuple[str, ...] = ()

    def __repr__(self) -> str:
        sizes = {"case": len(self.results), "difference": len(self.differences), "failed engine": len(self.broken)}
        return f"<Report {self.name}, {'green' if self.green else 'red'}: {counted(sizes)}>"

    @property
    def differences(self) -> tuple[Result, ...]:
        """Results that no verdict excuses, the first one first."""
        return tuple(result for result in self.results if result.state is CaseState.FAIL)

    @property
    def broken(self) -> tuple[UnverifiedEngine, ...]:
        """Engines that did not run to the end."""
        return tuple(left for left in self.left if left.broken)

    @property
    def isolated(self) -> bool:
        """Whether listeners and endpoints had the topology's own addresses."""
        return not self.moved_because

    @property
    def all_refused(self) -> bool:
        """Whether there are cases, and each is refused or skipped: nothing was verified."""
        return bool(self.results) and all(x.state in (CaseState.REFUSED, CaseState.SKIPPED) for x in self.results)

    @property
    def green(self) -> bool:
        """No difference that no verdict names, no engine broke, and something was verified."""
        return not (self.differences or self.broken or self.all_refused)

    @property
    def exit_code(self) -> int:
        """0 green, 4 differences, 3 an engine failed, or every case was refused or skipped."""
        return 4 if self.differences else 0 if self.green else 3

    def as_dict(self) -> ReportRecord:
        """The JSON record."""
        counts: dict[str, Counter[str]] = {}
        for result in self.results:
            counts.setdefault(result.subject, Counter())[str(result.state)] += 1
        return {
            "name": self.name,
            "green": self.green,
            "seconds": round(self.seconds, 1),
            "own_addresses": self.isolated,
            "moved_because": self.moved_because,
            "time_factor": self.scale.factor,
            "times": [{"real_ms": real, "verified_ms": new} for real, new in self.scale.pairs],
            "totals": {subject: dict(count) for subject, count in counts.items()},
            "not_tried": list(self.untried),
            "engines": [
                {
                    "name": x.engine,
                    "version": x.version,
                    "changed": to_builtins(x.changed),
                    "edits": list(x.edits),
                }
                for x in self.served
            ],
            "left_out": [
                {"engine": x.engine, "broken": x.broken, "reasons": [d.as_dict() for d in x.reasons]} for x in self.left
            ],
            "differences": to_builtins(self.differences),
            "results": [
                {"engine": x.subject, "case": x.case, "clause": x.clause, "state": x.state, "detail": x.detail}
                for x in self.results
            ],
        }


def compare_engines(done: Sequence[Finished], cases: Sequence[Case]) -> tuple[Result, ...]:
    """Requests that two engines answer differently although each does as the oracle says."""
    known = {case.id: case for case in cases}
    again_on = {x.engine: {result.case: result.again for result in x.results} for x in done}
    found = []
    for one, other in combinations(done, 2):
        for name, print_ in one.answers.items():
            against = other.answers.get(name)
            if against is not None and against != print_:
                detail = f"{one.engine}: {print_}, {other.engine}: {against}"
                request = known[name].request
                lines = (again_on[x.engine].get(name, "") for x in (one, other))
                again = "\n".join(filter(None, lines)) or f"{request.method} {request.target} {request.headers}"
                found.append(
                    Result(f"{one.engine}, {other.engine}", "topology", name, PAIRWISE, CaseState.FAIL, detail, again)
                )
    return tuple(found)
