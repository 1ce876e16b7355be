"""The report of a benchmark, which is also its JSON: medians and extremes for each engine and shape of the load."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta

from lbgen.bench.load import Load, LoadShape
from lbgen.diagnostics import Diagnostic, counted
from lbgen.json_types import FindingRecord, Printed
from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

DIRECT = "direct"
NEAR_DIRECT = 0.8  # of the direct rate, from which on the endpoint or wrk may be what limits an engine
BEHIND = 0.98  # of a constant rate, below which an engine did not keep up
GENERATOR_BUSY = 0.8  # of a core, from which on the generator may be what delays requests


def this_machine() -> dict[str, Any]:
    """The fields of a report about lbgen and the host."""
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return {
        "lbgen": VERSION,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count() or 1,
        "cpu": found[1] if found else platform.processor() or "unknown processor",
    }


class Spread(Printed, frozen=True):
    """A figure over all rounds."""

    median: float
    low: Annotated[float, Meta(description="The least round.")]
    high: Annotated[float, Meta(description="The greatest round.")]
    rounds: Annotated[tuple[float, ...], Meta(description="The figure of each round, in order.")]

    @staticmethod
    def of(figures: Iterable[float]) -> Spread:
        """That of at least one round. The extremes of equal subjects do not overlap in one of 10 cases with 3 rounds,
        and in one of 130 with 5."""
        rounds = tuple(figures)
        return Spread(statistics.median(rounds), min(rounds), max(rounds), rounds)


class Sample(Printed, frozen=True):
    """One round: CPU seconds and peak MiB of the engine's processes; None for the endpoint itself, and for an engine
    that forwards in the kernel. `softirq`: of these two, seconds of interrupts beyond those of an idle machine."""

    load: Load
    cpu: float | None
    memory: float | None
    softirq: float | None = None


class Row(Printed, frozen=True, kw_only=True):
    """One subject under one shape of load."""

    subject: Annotated[str, Meta(description="An engine, or `direct`: the endpoint without an engine before it.")]
    connections: Annotated[int, Meta(description="Open at a time; at most, at a constant rate.")]
    streams: Annotated[int, Meta(description="Requests at a time on each HTTP/2 connection. 0: HTTP/1.1.")]
    keep_alive: Annotated[bool, Meta(description="false: each connection has one request.")]
    loop: Annotated[
        Literal["closed", "constant rate"],
        Meta(
            description="closed: a connection sends its next request after the answer, so that a slow engine gets "
            "fewer requests. constant rate: requests are due by a clock, and latency counts from then."
        ),
    ]
    rate: Annotated[int | None, Meta(description="Requests per second that were due. null: closed loop.")]
    generator: Annotated[str, Meta(description="With its version.")]
    command: Annotated[str, Meta(description="Its command line, with the listener's own port.")]
    requests_per_second: Spread
    cpu_us_per_request: Annotated[
        Spread | None,
        Meta(
            description="User and system time of the engine's processes, in microseconds; of one that forwards in the "
            "kernel, interrupts beyond those of direct. null: direct, or not measurable here."
        ),
    ]
    p50_ms: Spread
    p95_ms: Annotated[Spread | None, Meta(description="null: the generator of the closed loop does not say.")]
    p99_ms: Spread
    p999_ms: Annotated[
        Spread | None,
        Meta(description="The 99.9th percentile. null: the generator of the closed loop does not say."),
    ]
    p50_over_direct_ms: Annotated[
        Spread | None, Meta(description="p50 above that of direct in the same round. null: direct.")
    ]
    peak_memory_mib: Annotated[
        float | None,
        Meta(description="The largest sum of PSS that was seen. null: direct, or an engine that is in the kernel."),
    ]
    requests: Annotated[int, Meta(description="Of all rounds.")]
    errors: Annotated[int, Meta(description="Connections that failed, and requests without an answer in time.")]
    not_2xx_3xx: Annotated[int, Meta(description="Answers with another status.")]
    generator_busy: Annotated[
        float | None,
        Meta(description="The largest share of a core that the generator used. null: it does not say."),
    ] = None

    @property
    def shape(self) -> LoadShape:
        """How it was loaded."""
        return LoadShape(self.connections, self.rate, keep_alive=self.keep_alive, streams=self.streams)

    @property
    def kernel(self) -> bool:
        """Whether it forwards in the kernel, where no process has the memory."""
        return self.subject != DIRECT and self.peak_memory_mib is None

    @property
    def behind(self) -> bool:
        """Whether it answered fewer requests per second than were due."""
        return self.rate is not None and self.requests_per_second.median < BEHIND * self.rate


class MeasuredEngine(Printed, frozen=True):
    """An engine that was measured."""

    engine: str
    version: str
    verified_cases: Annotated[int, Meta(description="How many cases it passed before it was measured.")]


class Why(StrEnum):
    """Why an engine was not measured."""

    LEFT_OUT = "left out"
    DIFFERS = "differs"
    FAILED = "failed"


class UnmeasuredEngine(Printed, frozen=True):
    """An engine that was not measured."""

    engine: str
    why: Annotated[
        Why,
        Meta(description="left out: it cannot serve the topology. differs, failed: the verification before the load."),
    ]
    reasons: tuple[FindingRecord, ...]

    @staticmethod
    def of(engine: str, why: Why, reasons: Iterable[Diagnostic]) -> UnmeasuredEngine:
        """One with these findings."""
        return UnmeasuredEngine(engine, why, tuple(each.as_dict() for each in reasons))

    def __str__(self) -> str:
        return f"{self.engine}, {self.why}: {self.reasons[0]['message']}"


def exit_code_of(not_measured: Sequence[UnmeasuredEngine]) -> int:
    """0 when all were measured but those that cannot serve the topology, 4 when one differs, 3 when one failed."""
    whys = {each.why for each in not_measured}
    return 4 if Why.DIFFERS in whys else 3 if Why.FAILED in whys else 0


class LoadOptions(Printed, frozen=True):
    """What was sent."""

    listener: str
    route: str
    target: Annotated[str, Meta(description="Path and query.")]
    tls: bool
    headers: tuple[tuple[str, str], ...]
    body_bytes: Annotated[int, Meta(description="Of each answer.")]
    seconds: Annotated[int, Meta(description="Of each round.")]
    rounds: int
    delays: Annotated[dict[str, float], Meta(description="By endpoint the seconds after which it answers.")]

    @staticmethod
    def of(target: LoadTarget, body_bytes: int, seconds: int, rounds: int, delays: dict[str, float]) -> LoadOptions:
        """Those of a request."""
        tls = target.server_name is not None
        what = (target.listener, target.route, target.target, tls, target.headers)
        return LoadOptions(*what, body_bytes, seconds, rounds, delays)


class BenchReport(Printed, frozen=True, kw_only=True):
    """What a benchmark measured."""

    name: str
    lbgen: Annotated[str, Meta(description="Its version.")]
    system: str
    cores: int
    cpu: Annotated[str, Meta(description="The processor.")]
    load: LoadOptions
    engines: tuple[MeasuredEngine, ...]
    not_measured: tuple[UnmeasuredEngine, ...]
    rows: tuple[Row, ...]
    notes: Annotated[tuple[str, ...], Meta(description="What limits the figures, in sentences.")]
    configurations: Annotated[
        dict[str, dict[str, str]],
        Meta(description="By engine and name the files that were rendered, with the topology's own ports."),
    ]

    def __repr__(self) -> str:
        return f"<BenchReport {self.name}: {counted({'engine': len(self.engines), 'row': len(self.rows)})}>"

    @property
    def exit_code(self) -> int:
        """As `exit_code_of`."""
        return exit_code_of(self.not_measured)


def notes_of(rows: Sequence[Row], load: LoadOptions, cores: int, *, http2: bool = False) -> tuple[str, ...]:
    """What limits the figures, in sentences. `http2`: the listener speaks it."""
    found = [
        "closed loop: each connection sends its next request after the answer, so that percentiles leave out the "
        "requests that a slow engine delays",
        f"generator, endpoint and engine share {cores} cores; CPU per request depends least on that",
    ]
    if any(row.rate is not None for row in rows):
        found.append("constant rate: latency counts from the time at which a request was due, also if none was sent")
    found += [f"{endpoint} answers {seconds * 1000:g} ms late" for endpoint, seconds in load.delays.items()]
    if any(row.kernel for row in rows):
        found.append(
            "engines that forward in the kernel: CPU is that of interrupts on all cores beyond those of direct in the "
            "same round; not measurable here where some round has no more"
        )
    if load.tls:
        found.append("direct: over HTTP/1.1 without TLS, which the endpoint does not speak")
    if http2 and not any(row.streams for row in rows):
        found.append("HTTP/2 is not measured: no executable of h2load (nghttp2-client) is in PATH")
    direct = {row.shape: row.requests_per_second.median for row in rows if row.subject == DIRECT}
    for row in rows:
        rate = row.requests_per_second.median
        most = direct.get(row.shape)
        if row.rate is None and row.subject != DIRECT and most is not None and rate > NEAR_DIRECT * most:
            found.append(
                f"{row.subject} at {row.connections} connections reaches {rate / most:.0%} of the direct rate: the "
                "endpoint or wrk may be what limits it"
            )
        if row.behind:
            found.append(
                f"{row.subject} answers {rate:.0f} of {row.rate} requests/s: it does not keep up, and its latency "
                "grows as long as the load lasts"
            )
        if row.generator_busy is not None and row.generator_busy > GENERATOR_BUSY:
            found.append(
                f"{row.subject} at {row.rate} requests/s: the generator uses {row.generator_busy:.0%} of a core, so "
                "that it may delay requests itself"
            )
    return tuple(found)


def rows_of(
    samples: Sequence[tuple[str, LoadShape, Sample]], sender: Callable[[LoadShape], tuple[str, str]]
) -> tuple[Row, ...]:
    """The rows of samples (subject, shape, figures), by shape and in the order in which those come. `sender`: generator
    and command line of a shape."""
    groups: dict[LoadShape, dict[str, list[Sample]]] = {}
    for subject, shape, sample in samples:
        groups.setdefault(shape, {}).setdefault(subject, []).append(sample)
    return tuple(
        _row(name, shape, found[name], found.get(DIRECT, ()), sender(shape))
        for shape, found in groups.items()
        for name in found
    )


def _row(
    name: str, shape: LoadShape, samples: Sequence[Sample], direct: Sequence[Sample], sender: tuple[str, str]
) -> Row:
    pairs = tuple(zip(samples, direct, strict=True)) if len(samples) == len(direct) and name != DIRECT else ()
    loads = [each.load for each in samples]
    return Row(
        subject=name,
        connections=shape.connections,
        streams=shape.streams,
        keep_alive=shape.keep_alive,
        loop="closed" if shape.rate is None else "constant rate",
        rate=shape.rate,
        generator=sender[0],
        command=sender[1],
        requests_per_second=Spread.of(each.per_second for each in loads),
        cpu_us_per_request=_cpu_us(samples, pairs),
        p50_ms=Spread.of(each.p50_ms for each in loads),
        p95_ms=_spread_of(each.p95_ms for each in loads),
        p99_ms=Spread.of(each.p99_ms for each in loads),
        p999_ms=_spread_of(each.p999_ms for each in loads),
        p50_over_direct_ms=_spread_of(each.load.p50_ms - base.load.p50_ms for each, base in pairs),
        peak_memory_mib=max((each.memory for each in samples if each.memory is not None), default=None),
        requests=sum(each.requests for each in loads),
        errors=sum(each.errors for each in loads),
        not_2xx_3xx=sum(each.refused for each in loads),
        generator_busy=max((each.busy for each in loads if each.busy is not None), default=None),
    )


def _cpu_us(samples: Sequence[Sample], pairs: Sequence[tuple[Sample, Sample]]) -> Spread | None:
    """Microseconds per request. What the kernel adds is the interrupts per request beyond those of direct in the same
    round; None where some round has no more."""
    if not pairs or samples[0].softirq is None:
        return _spread_of(None if each.cpu is None else each.cpu * 1e6 / each.load.requests for each in samples)
    per_request = [[1e6 * (x.softirq or 0.0) / x.load.requests for x in pair] for pair in pairs]
    added = [own - base for own, base in per_request]
    return Spread.of(added) if all(each > 0 for each in added) else None


def _spread_of(figures: Iterable[float | None]) -> Spread | None:
    known = [each for each in figures if each is not None]
    return Spread.of(known) if known else None
