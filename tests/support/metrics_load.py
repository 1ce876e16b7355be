"""A load with all kinds of outcomes, and the counts that an engine serves of it."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from lbgen.agent.metric_names import BUCKETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Samples = dict[tuple[Any, ...], float]
SLOW_MS = 60
SECONDS = 60.0  # for the last line to be counted
# How often in a round, method, path, control of the stand-in, and what is counted: route, pool, method, class.
ROUND = (
    (4, "GET", "/api/list", None, ("api", "app", "GET", "2xx")),
    (2, "POST", "/api/new", {"mode": "fixed", "status": 201}, ("api", "app", "POST", "2xx")),
    (1, "GET", "/api/lost", {"mode": "fixed", "status": 404}, ("api", "app", "GET", "4xx")),
    (1, "BREW", "/api/pot", {"mode": "fixed", "status": 418}, ("api", "app", "other", "4xx")),
    (1, "DELETE", "/api/broken", {"mode": "fixed", "status": 500}, ("api", "app", "DELETE", "5xx")),
    (1, "GET", "/slow", {"mode": "hang", "wait_ms": SLOW_MS}, ("slow", "app", "GET", "2xx")),
    (2, "GET", "/half", None, ("half", "half", "GET", "2xx")),
    (1, "GET", "/dead", None, ("dead", "dead", "GET", "5xx")),
    (2, "GET", "/old", None, ("old", "-", "GET", "3xx")),
    (1, "HEAD", "/gone", None, ("gone", "-", "HEAD", "4xx")),
    (1, "GET", "/nowhere", None, ("-", "-", "GET", "4xx")),
)
IN_ROUND = sum(count for count, *_ in ROUND)


def topology(name: str, port: int, metrics: int, **more: Any) -> dict[str, Any]:
    """One listener, five routes, three pools; an endpoint at port 1 is dead."""
    dead = {"address": "127.0.0.1:1"}
    return {
        "version": 1,
        "name": name,
        "metrics": {"port": metrics},
        "listeners": {"web": {"port": port}},
        "pools": {
            "app": {"endpoints": [{"address": "10.9.0.1:80"}, {"address": "10.9.0.2:80"}]},
            "half": {"endpoints": [{"address": "10.9.0.3:80"}, {"address": "10.9.0.4:80"}]},
            "dead": {"endpoints": [dead], "stand_ins": False},
        },
        "routes": [
            {"name": "api", "match": [{"path": {"prefix": "/api"}}], "forward": "app"},
            {"name": "slow", "match": [{"path": {"exact": "/slow"}}], "forward": "app"},
            {
                "name": "half",
                "match": [{"path": {"exact": "/half"}}],
                "forward": "half",
                "retries": {"max": 2, "on": ["connect_failure"]},
            },
            {"name": "dead", "match": [{"path": {"exact": "/dead"}}], "forward": "dead"},
            {"name": "old", "match": [{"path": {"exact": "/old"}}], "redirect": {"path": "/api"}},
            {"name": "gone", "match": [{"path": {"exact": "/gone"}}], "respond": {"status": 410, "body": "gone\n"}},
        ],
        **more,
    }


def expected(rounds: int) -> Counter[tuple[str, ...]]:
    """Requests by route, pool, method and class of the status."""
    return Counter({key: count * rounds for count, *_, key in ROUND})


def send(host: str, port: int, rounds: int) -> None:
    """Send the rounds over one connection, one request after the other."""
    connection = http.client.HTTPConnection(host, port, timeout=10)
    for _ in range(rounds):
        for count, method, path, control, _key in ROUND:
            for _number in range(count):
                headers = {} if control is None else {"x-stand-in": json.dumps(control)}
                connection.request(method, path, headers=headers)
                connection.getresponse().read()
    connection.close()


def scrape(url: str) -> Samples:
    """All samples by name and sorted labels; the text is parsed by Prometheus' own library."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text = answer.read().decode()
    return {
        (each.name, *sorted(each.labels.items())): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def of(samples: Samples, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """The samples of that name: labels and value."""
    for (found, *labels), value in samples.items():
        if found == name:
            yield dict(labels), value


def requests(samples: Samples) -> Counter[tuple[str, ...]]:
    """Requests by route, pool, method and class of the status."""
    keys = ("route", "pool", "method", "status_class")
    return Counter(
        {tuple(labels[key] for key in keys): int(value) for labels, value in of(samples, "lbgen_requests_total")}
    )


def first(url: str, end: float) -> Samples:
    """The samples once the agent serves them, which in a container may be a second after `up` has returned."""
    while True:
        try:
            return scrape(url)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def settled(url: str) -> Samples:
    """The samples once two scrapes in a row count the same."""
    end = time.monotonic() + SECONDS
    found = first(url, end)
    while time.monotonic() < end:
        time.sleep(2.5)  # a line is written within a second, and read within another
        before, found = found, scrape(url)
        if requests(before) == requests(found):
            return found
    raise AssertionError(f"{url} goes on counting")


def all_settled(urls: Mapping[str, str]) -> dict[str, Samples]:
    """The samples of each engine once they are settled, for which all are waited at the same time."""
    with ThreadPoolExecutor(len(urls)) as pool:
        return dict(zip(urls, pool.map(settled, urls.values()), strict=True))


def difference(after: Samples, before: Samples) -> Samples:
    """What was added to every sample."""
    return {key: value - before.get(key, 0) for key, value in after.items()}


def in_buckets(samples: Samples, name: str, route: str) -> list[int]:
    """How many values are in each bucket of a route's histogram, all other labels together."""
    cumulative = [0.0] * (len(BUCKETS) + 1)
    bounds = [*map(float, BUCKETS), float("inf")]
    for labels, value in of(samples, f"{name}_bucket"):
        if labels["route"] == route:
            cumulative[bounds.index(float(labels["le"]))] += value
    return [int(value - before) for value, before in zip(cumulative, [0.0, *cumulative], strict=False)]
