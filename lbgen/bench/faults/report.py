"""The report of a drill: for each fault and engine what clients saw, beside what the topology allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.bench.faults.fault import SECONDS
from lbgen.bench.faults.timeline import Outcome, Window, allowed, buckets, excesses, longest_allowed, p99_ms
from lbgen.bench.report import exit_code_of
from lbgen.records import counted

if TYPE_CHECKING:
    from lbgen.bench.faults.envelope import Envelope
    from lbgen.bench.faults.fault import Fault
    from lbgen.bench.json_types import FaultRecord, FaultsRecord
    from lbgen.bench.machine import Machine
    from lbgen.bench.report import MeasuredEngine, UnmeasuredEngine
    from lbgen.bench.target import LoadTarget
    from lbgen.diagnostics import Diagnostic

_DIFFERS, _FAILED = 4, 3
_NOWHERE = Window(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Drill:
    """One fault on one engine. `failed`: why there are no requests."""

    engine: str
    fault: Fault
    envelope: Envelope
    outcomes: tuple[Outcome, ...] = ()
    window: Window = _NOWHERE
    detail: str = ""
    failed: tuple[Diagnostic, ...] = ()

    @property
    def failures(self) -> int:
        """Requests without an answer, or with one that is neither 2xx nor 3xx."""
        return sum(x.failed for x in self.outcomes)

    @property
    def allowed(self) -> int:
        """How many may fail."""
        return allowed(self.outcomes, self.window, self.envelope)

    @property
    def longest_allowed(self) -> float | None:
        """Seconds that a request may take, with what the machine adds; None: no bound."""
        return longest_allowed(self.outcomes, self.window, self.envelope)

    @property
    def excesses(self) -> tuple[str, ...]:
        """What the envelope does not allow."""
        return excesses(self.outcomes, self.window, self.envelope)

    @property
    def p99_parts(self) -> tuple[float | None, float | None, float | None]:
        """Milliseconds of p99 before, during and after the fault; None without requests."""
        begin, end = self.window.begin, self.window.end
        return (
            p99_ms(self.outcomes, 0, begin),
            p99_ms(self.outcomes, begin, end),
            p99_ms(self.outcomes, end, SECONDS),
        )

    def as_dict(self) -> FaultRecord:
        """The JSON record."""
        return {
            "engine": self.engine,
            "fault": self.fault.value,
            "begin": self.window.begin,
            "end": self.window.end,
            "requests": len(self.outcomes),
            "failed": self.failures,
            "may_fail": self.allowed,
            "slowest_ms": max((x.took for x in self.outcomes), default=0.0) * 1000,
            "slowest_may_be_ms": None if self.longest_allowed is None else self.longest_allowed * 1000,
            "why": self.envelope.why,
            "excesses": list(self.excesses),
            "detail": self.detail,
            "timeline": [
                {"second": x.second, "answered_per_second": x.answered, "failed": x.failed, "p99_ms": x.p99_ms}
                for x in buckets(self.outcomes)
            ],
            "reasons": [x.as_dict() for x in self.failed],
        }


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What a drill measured: `drills` by fault, then by engine."""

    name: str
    machine: Machine
    target: LoadTarget
    rate: int
    engines: tuple[MeasuredEngine, ...]
    not_measured: tuple[UnmeasuredEngine, ...]
    drills: tuple[Drill, ...]

    def __repr__(self) -> str:
        return f"<FaultReport {self.name}: {counted({'engine': len(self.engines), 'drill': len(self.drills)})}>"

    @property
    def faults(self) -> tuple[Fault, ...]:
        """In the order in which they came."""
        return tuple(dict.fromkeys(x.fault for x in self.drills))

    @property
    def exit_code(self) -> int:
        """4 where an engine left the envelope or differs, 3 where one failed, else 0."""
        if any(x.excesses for x in self.drills):
            return _DIFFERS
        return _FAILED if any(x.failed for x in self.drills) else exit_code_of(self.not_measured)

    def as_dict(self) -> FaultsRecord:
        """The JSON record."""
        return {
            "name": self.name,
            "lbgen": self.machine.lbgen,
            "system": self.machine.system,
            "cores": self.machine.cores,
            "cpu": self.machine.cpu,
            "route": self.target.route,
            "target": self.target.target,
            "rate": self.rate,
            "seconds": SECONDS,
            "engines": [{"engine": x.engine, "version": x.version, "verified_cases": x.cases} for x in self.engines],
            "not_measured": [x.as_dict() for x in self.not_measured],
            "faults": [x.as_dict() for x in self.drills],
        }
