"""Counts requests by engine and route: how many, how many failed, how long they took."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import Struct, field

NO_ROUTE = "-"  # requests that no route served: 404, 400, denied by the listener


@dataclass(frozen=True, slots=True)
class RouteStats:
    """What an engine did for one route. `client_errors` are 4xx, `errors` 5xx and requests that ended without a status;
    `retried` took more than one try; times are milliseconds by nearest rank, None where none was logged; `per_second`
    is over the time asked for, else from the first logged request to the last, None when that is under a second."""

    engine: str
    route: str
    requests: int
    per_second: float | None
    client_errors: int
    errors: int
    retried: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    bytes: int


class _Second(Struct):
    """The requests of one route that ended in one second; durations are packed, since there may be millions."""

    requests: int = 0
    client_errors: int = 0
    errors: int = 0
    retried: int = 0
    bytes: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))

    def add(self, record: Mapping[str, object]) -> None:
        status, tries, size, time = (record[name] for name in ("status", "tries", "bytes", "duration_ms"))
        self.requests += 1
        if not isinstance(status, int) or status < 100 or status >= 500:
            self.errors += 1
        elif status >= 400:
            self.client_errors += 1
        self.retried += isinstance(tries, int) and tries > 1
        self.bytes += size if isinstance(size, int) else 0
        if isinstance(time, int | float):
            self.times.append(time)


class Counter:
    """Counts records in any order and drops old ones."""

    def __init__(self, seconds: float | None = None) -> None:
        """`seconds`: count only requests that ended in the last so many; None = all."""
        self.seconds = seconds
        self._counted: dict[tuple[str, str], dict[int, _Second]] = defaultdict(lambda: defaultdict(_Second))

    def add(self, engine: str, record: Mapping[str, object]) -> None:
        """Count one record of the access log."""
        second = int(datetime.fromisoformat(str(record["time"])).timestamp())
        self._counted[engine, str(record["route"] or NO_ROUTE)][second].add(record)

    def stats(self, now: float | None = None) -> tuple[RouteStats, ...]:
        """Return the figures by engine and route, routes in alphabetical order. `now` is in epoch seconds."""
        if self.seconds is not None:
            first = (datetime.now(UTC).timestamp() if now is None else now) - self.seconds
            for key in list(self._counted):
                seconds = self._counted[key]
                for old in [each for each in seconds if each < first]:
                    del seconds[old]
                if not seconds:
                    del self._counted[key]
        return tuple(self._of(*key, seconds) for key, seconds in sorted(self._counted.items()))

    def _of(self, engine: str, route: str, seconds: Mapping[int, _Second]) -> RouteStats:
        every = list(seconds.values())
        times = sorted(time for each in every for time in each.times)
        requests = sum(each.requests for each in every)
        span = self.seconds or max(seconds) - min(seconds)
        return RouteStats(
            engine,
            route,
            requests,
            round(requests / span, 2) if span >= 1 else None,
            sum(each.client_errors for each in every),
            sum(each.errors for each in every),
            sum(each.retried for each in every),
            _rank(times, 0.5),
            _rank(times, 0.99),
            times[-1] if times else None,
            sum(each.bytes for each in every),
        )


def _rank(times: list[float], share: float) -> float | None:
    """Return the nearest rank: the smallest duration that this share of requests did not exceed."""
    return times[math.ceil(share * len(times)) - 1] if times else None
