"""The report of a drill, which is also its JSON: for each fault and engine what clients saw over time, beside what the
topology allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from lbgen.bench.constant_rate import percentiles
from lbgen.bench.faults import SECONDS, Fault
from lbgen.bench.report import MeasuredEngine, UnmeasuredEngine, exit_code_of
from lbgen.diagnostics import Diagnostic, counted
from lbgen.json_types import FindingRecord, Printed

if TYPE_CHECKING:
    from lbgen.bench.faults.envelope import Envelope

_DIFFERS, _FAILED = 4, 3
BUCKET_SECONDS = 0.5
SLACK_SECONDS = 0.5  # that the machine may add to the time of a request, beside what it adds before the fault
EDGE_SECONDS = 0.25  # around a fault, in which requests that are due may or may not meet it
_DEVIATIONS = 4.0  # of the requests that meet a share, which one drill in 16,000 exceeds by chance


class Outcome(Struct, frozen=True):
    """A request: when it was due and what it took, in seconds, and its status; 0 without an answer."""

    due: float
    took: float
    status: int

    @property
    def failed(self) -> bool:
        """Whether it got no answer, or one that is neither 2xx nor 3xx."""
        return not 200 <= self.status < 400


class Window(Struct, frozen=True):
    """When a fault began and ended, in seconds of the timeline."""

    begin: float
    end: float


class Bucket(Printed, frozen=True):
    """Half a second of a drill."""

    second: Annotated[float, Meta(description="When it begins.")]
    answered_per_second: Annotated[float, Meta(description="Good answers that came in it.")]
    failed: Annotated[int, Meta(description="Of the requests that were due in it.")]
    p99_ms: Annotated[float | None, Meta(description="Of the requests that were due in it. null: none was.")]


class Drill(Printed, frozen=True, kw_only=True):
    """One fault on one engine."""

    engine: str
    fault: Fault
    begin: Annotated[float, Meta(description="When the fault began, in seconds of the timeline.")]
    end: float
    requests: int
    failed: Annotated[int, Meta(description="Without an answer, or with one that is neither 2xx nor 3xx.")]
    may_fail: Annotated[int, Meta(description="As many as the topology's times, retries and health checks allow.")]
    may_fail_per_second: Annotated[
        tuple[tuple[float, float], ...],
        Meta(description="Corners, seconds and requests, of the line below which failures stay on average."),
    ]
    slowest_ms: float
    slowest_may_be_ms: Annotated[float | None, Meta(description="With what the machine adds. null: no bound.")]
    slowest_of_topology_ms: Annotated[float | None, Meta(description="Without that. null: no bound.")]
    p99_parts_ms: Annotated[
        tuple[float | None, float | None, float | None],
        Meta(description="Before, during and after the fault. null: no request was due."),
    ]
    why: Annotated[str, Meta(description="What the topology allows, in a sentence.")]
    excesses: Annotated[tuple[str, ...], Meta(description="What it does not allow, in sentences.")]
    detail: str
    timeline: tuple[Bucket, ...]
    reasons: Annotated[tuple[FindingRecord, ...], Meta(description="Why there are no requests.")]

    @staticmethod
    def of(
        engine: str,
        fault: Fault,
        envelope: Envelope,
        outcomes: Sequence[Outcome] = (),
        window: Window = Window(0.0, 0.0),  # noqa: B008  # it is frozen
        rate: int = 0,
        detail: str = "",
        reasons: Sequence[Diagnostic] = (),
    ) -> Drill:
        """What `outcomes` show of a fault in `window`; `reasons`: why there are none."""
        longest = longest_allowed(outcomes, window, envelope)
        return Drill(
            engine=engine,
            fault=fault,
            begin=window.begin,
            end=window.end,
            requests=len(outcomes),
            failed=sum(x.failed for x in outcomes),
            may_fail=allowed(outcomes, window, envelope),
            may_fail_per_second=tuple(allowed_over_time(window, envelope, rate)),
            slowest_ms=max((x.took for x in outcomes), default=0.0) * 1000,
            slowest_may_be_ms=None if longest is None else longest * 1000,
            slowest_of_topology_ms=None if envelope.slowest is None else envelope.slowest * 1000,
            p99_parts_ms=(
                p99_ms(outcomes, 0, window.begin),
                p99_ms(outcomes, window.begin, window.end),
                p99_ms(outcomes, window.end, SECONDS),
            ),
            why=envelope.why,
            excesses=excesses(outcomes, window, envelope),
            detail=detail,
            timeline=buckets(outcomes),
            reasons=tuple(each.as_dict() for each in reasons),
        )


class FaultReport(Printed, frozen=True, kw_only=True):
    """What clients saw while endpoints, clients or the engine itself failed."""

    name: str
    lbgen: Annotated[str, Meta(description="Its version.")]
    system: str
    cores: int
    cpu: Annotated[str, Meta(description="The processor.")]
    route: str
    target: Annotated[str, Meta(description="Path and query.")]
    rate: Annotated[int, Meta(description="Requests per second.")]
    seconds: Annotated[float, Meta(description="Of each timeline.")]
    engines: tuple[MeasuredEngine, ...]
    not_measured: tuple[UnmeasuredEngine, ...]
    faults: Annotated[tuple[Drill, ...], Meta(description="By fault, then by engine.")]

    def __repr__(self) -> str:
        return f"<FaultReport {self.name}: {counted({'engine': len(self.engines), 'drill': len(self.faults)})}>"

    def by_fault(self) -> dict[Fault, tuple[Drill, ...]]:
        """The drills of each fault, in the order in which they came."""
        return {fault: tuple(x for x in self.faults if x.fault is fault) for fault in (y.fault for y in self.faults)}

    @property
    def exit_code(self) -> int:
        """4 where an engine left the envelope or differs, 3 where one failed, else 0."""
        if any(x.excesses for x in self.faults):
            return _DIFFERS
        return _FAILED if any(x.reasons for x in self.faults) else exit_code_of(self.not_measured)


def buckets(outcomes: Sequence[Outcome]) -> tuple[Bucket, ...]:
    """The timeline in half seconds."""
    found = []
    for number in range(math.ceil(SECONDS / BUCKET_SECONDS)):
        begin, end = number * BUCKET_SECONDS, (number + 1) * BUCKET_SECONDS
        due = [x for x in outcomes if begin <= x.due < end]
        answered = sum(not x.failed and begin <= x.due + x.took < end for x in outcomes)
        p99 = percentiles([x.took * 1000 for x in due]).get("99")
        found.append(Bucket(begin, answered / BUCKET_SECONDS, sum(x.failed for x in due), p99))
    return tuple(found)


def p99_ms(outcomes: Sequence[Outcome], begin: float, end: float) -> float | None:
    """The 99th percentile of the requests that were due between two times; None without any."""
    return percentiles([x.took * 1000 for x in outcomes if begin <= x.due < end]).get("99")


def allowed(outcomes: Sequence[Outcome], window: Window, envelope: Envelope) -> int:
    """How many requests may fail: the share of those that are due while the fault has an effect, with what chance may
    add to it."""
    if not envelope.share:
        return 0
    begin, end = _effective(window, envelope)
    count = sum(begin <= x.due <= end for x in outcomes)
    mean = count * envelope.share
    chance = _DEVIATIONS * math.sqrt(mean * (1 - envelope.share))
    most = min(count, math.ceil(mean + chance))
    return most if envelope.most is None else min(most, envelope.most)


def excesses(outcomes: Sequence[Outcome], window: Window, envelope: Envelope) -> tuple[str, ...]:
    """What the envelope does not allow, in sentences; empty where all is within it."""
    begin, end = _effective(window, envelope)
    failed = [x for x in outcomes if x.failed]
    inside = [x for x in failed if begin <= x.due <= end]
    found = []
    if len(inside) > (most := allowed(outcomes, window, envelope)):
        found.append(f"{len(inside)} requests failed, and {most} may")
    if outside := [x for x in failed if x not in inside]:
        first, last = min(x.due for x in outside), max(x.due for x in outside)
        found.append(f"{len(outside)} requests failed at {first:.1f} to {last:.1f} s, where none may")
    slowest = max((x.took for x in outcomes), default=0.0)
    longest = longest_allowed(outcomes, window, envelope)
    if longest is not None and slowest > longest:
        found.append(f"a request took {slowest:.2f} s, and {longest:.2f} s may be")
    return tuple(found)


def longest_allowed(outcomes: Sequence[Outcome], window: Window, envelope: Envelope) -> float | None:
    """How long a request may take, with what the machine adds; None: no bound."""
    usual = max((x.took for x in outcomes if x.due + x.took < window.begin), default=0.0)
    return None if envelope.slowest is None else envelope.slowest + usual + SLACK_SECONDS


def _effective(window: Window, envelope: Envelope) -> tuple[float, float]:
    end = window.end if envelope.seconds is None else min(window.end, window.begin + envelope.seconds)
    return window.begin - EDGE_SECONDS, end + envelope.after + EDGE_SECONDS


def allowed_over_time(window: Window, envelope: Envelope, rate: int) -> list[tuple[float, float]]:
    """Corners of the line below which failed requests per second stay on average: seconds and requests."""
    begin, end = (min(max(0.0, x), SECONDS) for x in _effective(window, envelope))
    most = envelope.share * rate
    return [(0.0, 0.0), (begin, 0.0), (begin, most), (end, most), (end, 0.0), (SECONDS, 0.0)] if most else []
