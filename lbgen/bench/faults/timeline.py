"""Requests over time, and what of them the envelope of a fault does not allow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.bench.constant_rate import percentiles
from lbgen.bench.faults.fault import SECONDS

if TYPE_CHECKING:
    from lbgen.bench.faults.envelope import Envelope

BUCKET_SECONDS = 0.5
SLACK_SECONDS = 0.5  # that the machine may add to the time of a request, beside what it adds before the fault
EDGE_SECONDS = 0.25  # around a fault, in which requests that are due may or may not meet it
_DEVIATIONS = 4.0  # of the requests that meet a share, which one drill in 16,000 exceeds by chance


@dataclass(frozen=True, slots=True)
class Outcome:
    """A request: when it was due and what it took, in seconds, and its status; 0 without an answer."""

    due: float
    took: float
    status: int

    @property
    def failed(self) -> bool:
        """Whether it got no answer, or one that is neither 2xx nor 3xx."""
        return not 200 <= self.status < 400


@dataclass(frozen=True, slots=True)
class Bucket:
    """Half a second: good answers per second that came in it; of the requests that were due in it, those that `failed`,
    and the 99th percentile in milliseconds, None without requests."""

    second: float
    answered: float
    failed: int
    p99_ms: float | None


@dataclass(frozen=True, slots=True)
class Window:
    """When a fault began and ended, in seconds of the timeline."""

    begin: float
    end: float


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
