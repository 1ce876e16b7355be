"""Requests by route from the metrics that an agent serves, in the form of those from the access log."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPException
from math import inf
from typing import TYPE_CHECKING

from lbgen.agent import metric_names as names
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.stats import RouteStats

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

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
    from prometheus_client.parser import text_string_to_metric_families  # takes longer to import than all of this

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
