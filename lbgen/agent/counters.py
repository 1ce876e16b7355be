"""Counts requests and connections by the names of the plan, so that what clients send cannot make new series."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from lbgen.agent import metric_names as names
from lbgen.engines.metrics_spec import ConnectionRecord, MetricsSpec

Labels = tuple[str, ...]
_CLASSES = {str(number): f"{number}xx" for number in range(1, 6)}


class Histogram(Struct):
    """Counts by bucket, the last one beyond all bounds; `total` is the sum of the values in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(names.BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one value."""
        self.counts[bisect_left(names.BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """Bound and count of all values up to it, as Prometheus has them."""
        found, count = [], 0
        for bound, each in zip((*map(str, names.BUCKETS), "+Inf"), self.counts, strict=True):
            count += each
            found.append((bound, count))
        return found


class Counters:
    """All counts of an engine. `counts` and `histograms` are by the name of the family and its labels."""

    def __init__(self, spec: MetricsSpec) -> None:
        self.spec = spec
        self.counts: dict[str, dict[Labels, int]] = {}
        self.histograms: dict[str, dict[Labels, Histogram]] = {}
        self.unread = 0
        self._listeners = frozenset(each.name for each in spec.listeners)
        self._routes = frozenset(spec.routes)
        self._pools = frozenset(each.name for each in spec.pools)
        for family in names.FAMILIES:
            if family.type == "counter":
                self.counts[family.name] = {}
            elif family.type == "histogram":
                self.histograms[family.name] = {}

    def add_request(self, record: Mapping[str, Any]) -> None:
        """Count a record of the access log (docs/contract.md, 10.log)."""
        listener, route, pool = self._place(record)
        status = record["status"]
        method = record["method"]
        if method not in self.spec.methods:
            method = names.OTHER_METHOD
        status_class = _CLASSES.get(str(status)[:1], names.NO_STATUS) if status else names.NO_STATUS
        self._count(names.REQUESTS, (listener, route, pool, method, status_class))
        self._time(names.DURATION, (listener, route), record["duration_ms"])
        if record["bytes"]:
            self._count(names.BYTES, (listener, route), record["bytes"])
        tries = record["tries"]
        if tries:
            self._count(names.TRIES, (route, pool), tries)
            self._time(names.UPSTREAM_DURATION, (route, pool), record["upstream_ms"] or 0)
            if tries > 1:
                self._count(names.RETRIED, (route, pool))

    def add_connection(self, record: ConnectionRecord) -> None:
        """Count a connection of an L4 listener."""
        listener = record.listener if record.listener in self._listeners else names.NONE
        pool = record.pool if record.pool in self._pools else names.NONE
        self._count(names.L4_CONNECTIONS, (listener, pool))
        self._count(names.L4_RECEIVED, (listener, pool), record.received)
        self._count(names.L4_SENT, (listener, pool), record.sent)
        self._time(names.L4_DURATION, (listener,), record.duration_ms)

    def _place(self, record: Mapping[str, Any]) -> tuple[str, str, str]:
        """Listener, route and pool. What the plan does not have (any more) is counted as none."""
        listener, route, pool = record["listener"], record["route"], record["pool"]
        return (
            listener if listener in self._listeners else names.NONE,
            route if route in self._routes else names.NONE,
            pool if pool in self._pools else names.NONE,
        )

    def _count(self, family: names.Family, labels: Labels, amount: int = 1) -> None:
        counts = self.counts[family.name]
        counts[labels] = counts.get(labels, 0) + amount

    def _time(self, family: names.Family, labels: Labels, milliseconds: float) -> None:
        series = self.histograms[family.name]
        histogram = series.get(labels)
        if histogram is None:
            histogram = series[labels] = Histogram()
        histogram.add(milliseconds / 1000)

    def to_data(self) -> dict[str, Any]:
        """Everything counted, as JSON data."""
        return {
            "unread": self.unread,
            "counts": {name: [[*labels, n] for labels, n in series.items()] for name, series in self.counts.items()},
            "buckets": list(names.BUCKETS),
            "histograms": {
                name: [[*labels, each.counts, each.total] for labels, each in series.items()]
                for name, series in self.histograms.items()
            },
        }

    def restore(self, data: Mapping[str, Any]) -> None:
        """Continue from `to_data`. Series of listeners, routes and pools that the plan no longer has are dropped.

        Raises LookupError, TypeError or ValueError for data of another form.
        """
        self.unread = int(data["unread"])
        for family in names.FAMILIES:
            if family.type == "counter":
                for *labels, count in data["counts"].get(family.name, ()):
                    if self._exists(family, labels):
                        self.counts[family.name][tuple(labels)] = int(count)
            elif family.type == "histogram" and data["buckets"] == list(names.BUCKETS):
                for *labels, counts, total in data["histograms"].get(family.name, ()):
                    if self._exists(family, labels):
                        self.histograms[family.name][tuple(labels)] = Histogram(list(map(int, counts)), float(total))

    def _exists(self, family: names.Family, labels: list[str]) -> bool:
        known = {"listener": self._listeners, "route": self._routes, "pool": self._pools}
        pairs = zip(family.labels, labels, strict=True)
        return all(value == names.NONE or value in known[label] for label, value in pairs if label in known)

    def series(self, family: names.Family) -> Iterator[tuple[Labels, int]]:
        """The series of a counter, sorted by their labels."""
        return iter(sorted(self.counts[family.name].items()))
