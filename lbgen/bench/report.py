"""The report of a benchmark: medians with quartiles for each engine and number of connections."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lbgen.records import counted

if TYPE_CHECKING:
    from lbgen.bench.json_types import BenchRecord, SpreadRecord
    from lbgen.bench.target import LoadTarget
    from lbgen.bench.wrk import Load
    from lbgen.diagnostics import Diagnostic

DIRECT = "direct"
NEAR_DIRECT = 0.8  # of the direct rate, from which on the endpoint or wrk may be what limits an engine


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over all rounds, in its own unit."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile; both the figure itself after one round."""
        if len(self.rounds) == 1:
            return self.rounds[0], self.rounds[0]
        low, _, high = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return low, high

    def as_dict(self) -> SpreadRecord:
        """The JSON record."""
        low, high = self.quartiles
        return {"median": self.median, "low": low, "high": high, "rounds": list(self.rounds)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One round: CPU seconds and peak MiB of the engine's processes; None for the endpoint itself."""

    load: Load
    cpu: float | None
    memory: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one subject (an engine, or `direct`) at one number of connections; at least one."""

    subject: str
    connections: int
    samples: tuple[Sample, ...]

    @property
    def per_second(self) -> Spread:
        """Answered requests per second."""
        return Spread(tuple(each.load.per_second for each in self.samples))

    @property
    def cpu_us(self) -> Spread | None:
        """CPU microseconds per request, None for direct."""
        figures = [each.cpu * 1e6 / each.load.requests for each in self.samples if each.cpu is not None]
        return Spread(tuple(figures)) if figures else None

    @property
    def p50_ms(self) -> Spread:
        """Milliseconds within which half of the requests are answered."""
        return Spread(tuple(each.load.p50_ms for each in self.samples))

    @property
    def p99_ms(self) -> Spread:
        """Milliseconds within which 99 % of the requests are answered."""
        return Spread(tuple(each.load.p99_ms for each in self.samples))

    @property
    def peak_memory(self) -> float | None:
        """MiB (PSS), the most that was seen; None for direct."""
        return max((each.memory for each in self.samples if each.memory is not None), default=None)

    @property
    def errors(self) -> int:
        """Connections that failed, and requests without an answer in time."""
        return sum(each.load.errors for each in self.samples)

    @property
    def refused(self) -> int:
        """Answers that are neither 2xx nor 3xx."""
        return sum(each.load.refused for each in self.samples)


@dataclass(frozen=True, slots=True)
class MeasuredEngine:
    """An engine that passed `cases` cases of a verification and was measured."""

    engine: str
    version: str
    cases: int


class Why(StrEnum):
    """Why an engine was not measured."""

    LEFT_OUT = "left out"
    DIFFERS = "differs"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class UnmeasuredEngine:
    """An engine that was not measured, with the reasons."""

    engine: str
    why: Why
    reasons: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What was sent: `seconds` per round, `connections` at a time, answers of `body_bytes`."""

    generator: str
    target: LoadTarget
    connections: tuple[int, ...]
    seconds: int
    rounds: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What `lbgen.bench` measured; `rows` are empty where no engine passed its verification."""

    name: str
    cores: int
    load: LoadOptions
    engines: tuple[MeasuredEngine, ...]
    not_measured: tuple[UnmeasuredEngine, ...]
    rows: tuple[Row, ...]

    def __repr__(self) -> str:
        return f"<BenchReport {self.name}: {counted({'engine': len(self.engines), 'row': len(self.rows)})}>"

    @property
    def exit_code(self) -> int:
        """0 when all were measured but those that cannot serve the topology, 4 when one differs, 3 when one failed."""
        whys = {each.why for each in self.not_measured}
        return 4 if Why.DIFFERS in whys else 3 if Why.FAILED in whys else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits the figures, in sentences."""
        found = [
            "closed loop: each connection sends its next request after the answer, so that percentiles leave out the "
            "requests that a slow engine delays",
            f"wrk, the endpoint and the engine share {self.cores} cores; CPU per request depends least on that",
        ]
        direct = {row.connections: row.per_second.median for row in self.rows if row.subject == DIRECT}
        near = [
            x for x in self.rows if x.subject != DIRECT and x.per_second.median > NEAR_DIRECT * direct[x.connections]
        ]
        for row in near:
            share = row.per_second.median / direct[row.connections]
            found.append(
                f"{row.subject} at {row.connections} connections reaches {share:.0%} of the direct rate: "
                "the endpoint or wrk may be what limits it"
            )
        return tuple(found)

    def as_dict(self) -> BenchRecord:
        """The JSON record."""
        return {
            "name": self.name,
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "cores": self.cores,
            "load": {
                "generator": self.load.generator,
                "loop": "closed",
                "listener": self.load.target.listener,
                "route": self.load.target.route,
                "target": self.load.target.target,
                "headers": list(self.load.target.headers),
                "body_bytes": self.load.body_bytes,
                "connections": list(self.load.connections),
                "seconds": self.load.seconds,
                "rounds": self.load.rounds,
            },
            "engines": [
                {"engine": each.engine, "version": each.version, "verified_cases": each.cases} for each in self.engines
            ],
            "not_measured": [
                {"engine": each.engine, "why": each.why.value, "reasons": [x.as_dict() for x in each.reasons]}
                for each in self.not_measured
            ],
            "rows": [
                {
                    "subject": row.subject,
                    "connections": row.connections,
                    "requests_per_second": row.per_second.as_dict(),
                    "cpu_us_per_request": None if row.cpu_us is None else row.cpu_us.as_dict(),
                    "p50_ms": row.p50_ms.as_dict(),
                    "p99_ms": row.p99_ms.as_dict(),
                    "peak_memory_mib": row.peak_memory,
                    "requests": sum(each.load.requests for each in row.samples),
                    "errors": row.errors,
                    "not_2xx_3xx": row.refused,
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
        }


def rows_of(samples: Sequence[tuple[str, int, Sample]]) -> tuple[Row, ...]:
    """The rows of samples (subject, connections, figures), by connections and in the order of the subjects."""
    groups: dict[tuple[int, str], list[Sample]] = {}
    for subject, connections, sample in samples:
        groups.setdefault((connections, subject), []).append(sample)
    ordered = sorted(groups, key=lambda each: each[0])
    return tuple(Row(subject, connections, tuple(groups[connections, subject])) for connections, subject in ordered)
