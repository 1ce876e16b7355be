"""The report of a benchmark: medians and extremes for each engine and shape of the load."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lbgen.records import counted, replace

if TYPE_CHECKING:
    from lbgen.bench.json_types import BenchRecord, SpreadRecord, UnmeasuredEngineRecord
    from lbgen.bench.load import Load, LoadShape
    from lbgen.bench.machine import Machine
    from lbgen.bench.target import LoadTarget
    from lbgen.diagnostics import Diagnostic

DIRECT = "direct"
NEAR_DIRECT = 0.8  # of the direct rate, from which on the endpoint or wrk may be what limits an engine
BEHIND = 0.98  # of a constant rate, below which an engine did not keep up
GENERATOR_BUSY = 0.8  # of a core, from which on the generator may be what delays requests


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over all rounds, in its own unit."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rounds)

    @property
    def extremes(self) -> tuple[float, float]:
        """The least and greatest round. Those of equal subjects do not overlap in one of 10 cases with 3 rounds, and
        one of 130 with 5."""
        return min(self.rounds), max(self.rounds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile; both the figure itself after one round."""
        if len(self.rounds) == 1:
            return self.rounds[0], self.rounds[0]
        low, _, high = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return low, high

    def as_dict(self) -> SpreadRecord:
        """The JSON record."""
        low, high = self.extremes
        return {"median": self.median, "low": low, "high": high, "rounds": list(self.rounds)}


@dataclass(frozen=True, slots=True)
class Sample:
    """One round: CPU seconds and peak MiB of the engine's processes; None for the endpoint itself, and for an engine
    that forwards in the kernel. `softirq`: of these two, seconds of interrupts beyond those of an idle machine."""

    load: Load
    cpu: float | None
    memory: float | None
    softirq: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """All rounds of one subject (an engine, or `direct`) under one shape of load; at least one."""

    subject: str
    shape: LoadShape
    samples: tuple[Sample, ...]
    kernel: bool = False  # it forwards in the kernel

    @property
    def per_second(self) -> Spread:
        """Answered requests per second."""
        return Spread(tuple(each.load.per_second for each in self.samples))

    @property
    def cpu_us(self) -> Spread | None:
        """CPU microseconds per request. None for direct, and where what the kernel adds to direct is not measurable."""
        if self.kernel and not all((each.cpu or 0.0) > 0 for each in self.samples):
            return None
        return _spread_of(None if each.cpu is None else each.cpu * 1e6 / each.load.requests for each in self.samples)

    @property
    def p50_ms(self) -> Spread:
        """Milliseconds within which half of the requests are answered."""
        return Spread(tuple(each.load.p50_ms for each in self.samples))

    @property
    def p99_ms(self) -> Spread:
        """Milliseconds within which 99 % of the requests are answered."""
        return Spread(tuple(each.load.p99_ms for each in self.samples))

    @property
    def p95_ms(self) -> Spread | None:
        """Milliseconds within which 95 % of the requests are answered; None where the generator does not say."""
        return _spread_of(each.load.p95_ms for each in self.samples)

    @property
    def p999_ms(self) -> Spread | None:
        """Milliseconds within which 99.9 % of the requests are answered; None where the generator does not say."""
        return _spread_of(each.load.p999_ms for each in self.samples)

    @property
    def generator_busy(self) -> float | None:
        """The largest share of a core that the generator used; None where it does not say."""
        return max((each.load.busy for each in self.samples if each.load.busy is not None), default=None)

    @property
    def behind(self) -> bool:
        """Whether it answered fewer requests per second than were due."""
        return self.shape.rate is not None and self.per_second.median < BEHIND * self.shape.rate

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

    @staticmethod
    def failed(engine: str, reasons: tuple[Diagnostic, ...]) -> UnmeasuredEngine:
        """One that did not start."""
        return UnmeasuredEngine(engine, Why.FAILED, reasons)

    def as_dict(self) -> UnmeasuredEngineRecord:
        """The JSON record."""
        return {"engine": self.engine, "why": self.why.value, "reasons": [x.as_dict() for x in self.reasons]}


def exit_code_of(not_measured: Sequence[UnmeasuredEngine]) -> int:
    """0 when all were measured but those that cannot serve the topology, 4 when one differs, 3 when one failed."""
    whys = {each.why for each in not_measured}
    return 4 if Why.DIFFERS in whys else 3 if Why.FAILED in whys else 0


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What was sent: `seconds` per round, answers of `body_bytes`; `generators` and `commands` (command lines) by
    shape, in the order of the tables. `delays`: by endpoint the seconds after which it answers."""

    generators: dict[LoadShape, str]
    commands: dict[LoadShape, str]
    target: LoadTarget
    seconds: int
    rounds: int
    body_bytes: int
    delays: dict[str, float]


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What `lbgen.bench` measured; `rows` are empty where no engine passed its verification. `configurations`: by
    engine and name the files that were rendered."""

    name: str
    machine: Machine
    load: LoadOptions
    engines: tuple[MeasuredEngine, ...]
    not_measured: tuple[UnmeasuredEngine, ...]
    rows: tuple[Row, ...]
    configurations: dict[str, dict[str, str]]

    def __repr__(self) -> str:
        return f"<BenchReport {self.name}: {counted({'engine': len(self.engines), 'row': len(self.rows)})}>"

    @property
    def exit_code(self) -> int:
        """As `exit_code_of`."""
        return exit_code_of(self.not_measured)

    @property
    def notes(self) -> tuple[str, ...]:
        """What limits the figures, in sentences."""
        found = [
            "closed loop: each connection sends its next request after the answer, so that percentiles leave out the "
            "requests that a slow engine delays",
            f"generator, endpoint and engine share {self.machine.cores} cores; CPU per request depends least on that",
        ]
        if any(shape.rate is not None for shape in self.load.generators):
            found.append(
                "constant rate: latency counts from the time at which a request was due, also if none was sent"
            )
        for endpoint, seconds in self.load.delays.items():
            found.append(f"{endpoint} answers {seconds * 1000:g} ms late")
        if any(row.kernel for row in self.rows):
            found.append(
                "engines that forward in the kernel: CPU is that of interrupts on all cores beyond those of direct in "
                "the same round; not measurable here where some round has no more"
            )
        if self.load.target.server_name is not None:
            found.append("direct: over HTTP/1.1 without TLS, which the endpoint does not speak")
        if self.load.target.http2 and not any(shape.streams for shape in self.load.generators):
            found.append("HTTP/2 is not measured: no executable of h2load (nghttp2-client) is in PATH")
        direct = {row.shape: row.per_second.median for row in self.rows if row.subject == DIRECT}
        for row in self.rows:
            share = row.per_second.median / direct.get(row.shape, math.inf)
            if row.shape.rate is None and row.subject != DIRECT and share > NEAR_DIRECT:
                found.append(
                    f"{row.subject} at {row.shape.connections} connections reaches {share:.0%} of the direct rate: "
                    "the endpoint or wrk may be what limits it"
                )
            if row.behind:
                found.append(
                    f"{row.subject} answers {row.per_second.median:.0f} of {row.shape.rate} requests/s: "
                    "it does not keep up, and its latency grows as long as the load lasts"
                )
            if row.generator_busy is not None and row.generator_busy > GENERATOR_BUSY:
                found.append(
                    f"{row.subject} at {row.shape.rate} requests/s: the generator uses {row.generator_busy:.0%} "
                    "of a core, so that it may delay requests itself"
                )
        return tuple(found)

    def over_direct(self, row: Row) -> Spread | None:
        """Milliseconds of p50 above that of `direct` in the same round; None for direct itself."""
        base = next((x for x in self.rows if x.subject == DIRECT and x.shape == row.shape), None)
        if base is None or row.subject == DIRECT:
            return None
        pairs = zip(row.samples, base.samples, strict=True)
        return Spread(tuple(ours.load.p50_ms - direct.load.p50_ms for ours, direct in pairs))

    def as_dict(self) -> BenchRecord:
        """The JSON record."""
        return {
            "name": self.name,
            "lbgen": self.machine.lbgen,
            "system": self.machine.system,
            "cores": self.machine.cores,
            "cpu": self.machine.cpu,
            "load": {
                "listener": self.load.target.listener,
                "route": self.load.target.route,
                "target": self.load.target.target,
                "tls": self.load.target.server_name is not None,
                "headers": list(self.load.target.headers),
                "body_bytes": self.load.body_bytes,
                "seconds": self.load.seconds,
                "rounds": self.load.rounds,
                "delays": self.load.delays,
            },
            "engines": [
                {"engine": each.engine, "version": each.version, "verified_cases": each.cases} for each in self.engines
            ],
            "not_measured": [each.as_dict() for each in self.not_measured],
            "rows": [
                {
                    "subject": row.subject,
                    "connections": row.shape.connections,
                    "streams": row.shape.streams,
                    "keep_alive": row.shape.keep_alive,
                    "loop": "closed" if row.shape.rate is None else "constant rate",
                    "rate": row.shape.rate,
                    "generator": self.load.generators[row.shape],
                    "command": self.load.commands[row.shape],
                    "requests_per_second": row.per_second.as_dict(),
                    "cpu_us_per_request": _record(row.cpu_us),
                    "p50_ms": row.p50_ms.as_dict(),
                    "p95_ms": _record(row.p95_ms),
                    "p99_ms": row.p99_ms.as_dict(),
                    "p999_ms": _record(row.p999_ms),
                    "p50_over_direct_ms": _record(self.over_direct(row)),
                    "peak_memory_mib": row.peak_memory,
                    "requests": sum(each.load.requests for each in row.samples),
                    "errors": row.errors,
                    "not_2xx_3xx": row.refused,
                }
                for row in self.rows
            ],
            "notes": list(self.notes),
            "configurations": self.configurations,
        }


def rows_of(samples: Sequence[tuple[str, LoadShape, Sample]]) -> tuple[Row, ...]:
    """The rows of samples (subject, shape, figures), by shape and in the order in which those come."""
    groups: dict[LoadShape, dict[str, list[Sample]]] = {}
    for subject, shape, sample in samples:
        groups.setdefault(shape, {}).setdefault(subject, []).append(sample)
    return tuple(_row(name, shape, found) for shape, found in groups.items() for name in found)


def _row(name: str, shape: LoadShape, found: dict[str, list[Sample]]) -> Row:
    """What the kernel adds is the interrupts per request beyond those of direct in the same round."""
    samples, direct = found[name], found.get(DIRECT, [])
    if name == DIRECT or samples[0].softirq is None or len(direct) != len(samples):
        return Row(name, shape, tuple(samples))
    added = (
        replace(x, cpu=(x.softirq or 0.0) - (base.softirq or 0.0) * x.load.requests / base.load.requests)
        for x, base in zip(samples, direct, strict=True)
    )
    return Row(name, shape, tuple(added), kernel=True)


def _spread_of(figures: Iterable[float | None]) -> Spread | None:
    known = tuple(each for each in figures if each is not None)
    return Spread(known) if known else None


def _record(spread: Spread | None) -> SpreadRecord | None:
    return None if spread is None else spread.as_dict()
