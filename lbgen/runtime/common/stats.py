"""Counts requests by engine and route: how many, how many failed, how long they took."""

from __future__ import annotations

import math
import urllib.request
from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from math import inf

from msgspec import Struct, field
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from lbgen.agent import metric_names as names
from lbgen.diagnostics import Diagnostic, EngineError

NO_ROUTE = "-"  # requests that no route served: 404, 400, denied by the listener


class RouteStats(Struct, frozen=True):
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


_SECONDS = 5
_ERRORS = ("5xx", names.NO_STATUS)


def fetch(engine: str, url: str) -> tuple[RouteStats, ...]:
    """Return what an engine counted, routes in alphabetical order. EngineError LB403 when nothing answers at `url`."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=_SECONDS) as answer:
            text = answer.read().decode()
    except (OSError, HTTPException) as error:
        hint = "does its agent run? see `lbgen logs`"
        raise EngineError(
            Diagnostic("LB403", f"the metrics of {engine} at {url} cannot be read: {error}", hint=hint)
        ) from None
    return from_text(engine, text)


def from_text(engine: str, text: str) -> tuple[RouteStats, ...]:
    """Return what the text of the metrics says. Times are interpolated within a bucket."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    routes = sorted({x.labels["route"] for x in samples if x.name == names.REQUESTS.name})
    return tuple(_of_route(engine, route, [x for x in samples if x.labels.get("route") == route]) for route in routes)


def _of_route(engine: str, route: str, samples: Sequence[Sample]) -> RouteStats:
    by_class: dict[str, int] = {}
    for each in samples:
        if each.name == names.REQUESTS.name:
            status = each.labels["status_class"]
            by_class[status] = by_class.get(status, 0) + int(each.value)
    buckets: dict[float, float] = {}
    for each in samples:
        if each.name == f"{names.DURATION.name}_bucket":
            bound = float(each.labels["le"])
            buckets[bound] = buckets.get(bound, 0) + each.value
    return RouteStats(
        engine,
        route,
        sum(by_class.values()),
        None,
        by_class.get("4xx", 0),
        sum(by_class.get(status, 0) for status in _ERRORS),
        _sum(samples, names.RETRIED.name),
        quantile(buckets, 0.5),
        quantile(buckets, 0.99),
        None,
        _sum(samples, names.BYTES.name),
    )


def _sum(samples: Iterable[Sample], name: str) -> int:
    return int(sum(each.value for each in samples if each.name == name))


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Return the milliseconds that this share of values does not exceed, as Prometheus' histogram_quantile does: linear
    within a bucket, and the last bound for what is beyond it. `buckets` are cumulative counts by bound in seconds."""
    total = buckets.get(inf, 0)
    if not total:
        return None
    lower, below = 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= share * total:
            if bound == inf:
                return lower * 1000
            return (lower + (bound - lower) * (share * total - below) / (count - below)) * 1000
        lower, below = bound, count
    return lower * 1000
