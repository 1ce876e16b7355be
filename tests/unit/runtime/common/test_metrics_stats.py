"""The figures of `lbgen stats` from metrics."""

from __future__ import annotations

from math import inf

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from lbgen.agent.metrics import Metrics
from lbgen.diagnostics import EngineError
from lbgen.engines.metrics_spec import METHODS, CountedListener, CountedPool, MetricsSpec
from lbgen.runtime.common.stats import fetch, from_text, quantile

SPEC = MetricsSpec(
    stack="shop",
    engine="traefik",
    version="3.7",
    address="127.0.0.1",
    port=0,
    relay="",
    listeners=(CountedListener("web", "127.0.0.1", 8080),),
    routes=("api", "gone"),
    pools=(CountedPool("app", False, ()),),
    methods=METHODS,
    admin_port=None,
)


def request(**values):
    record = {"listener": "web", "route": "api", "pool": "app", "method": "GET", "status": 200, "duration_ms": 20.0}
    return {**record, "upstream_ms": 19.0, "tries": 1, "bytes": 10, **values}


def test_figures_of_a_route(tmp_path):
    made = Metrics(SPEC, tmp_path, lambda text: None)
    for status in (200, 200, 201, 404, 500, 0):
        made.counters.add_request(request(status=status, method="POST" if status == 201 else "GET"))
    made.counters.add_request(request(tries=3, duration_ms=900.0))
    made.counters.add_request(request(route="gone", pool="", tries=0, status=410, duration_ms=0))
    registry = CollectorRegistry()
    registry.register(made)
    api, gone = from_text("nginx", generate_latest(registry).decode())
    assert (api.engine, api.route, api.requests, api.per_second) == ("nginx", "api", 7, None)
    assert (api.client_errors, api.errors, api.retried, api.bytes) == (1, 2, 1, 70)
    assert api.p50_ms == pytest.approx(18.75)
    assert api.p99_ms is not None
    assert 500 < api.p99_ms <= 1000
    assert (gone.route, gone.requests, gone.client_errors) == ("gone", 1, 1)


def test_quantiles_are_those_of_prometheus():
    assert quantile({}, 0.5) is None
    assert quantile({0.1: 0, inf: 0}, 0.5) is None
    assert quantile({0.1: 10, inf: 10}, 0.5) == 50
    assert quantile({0.1: 0, 0.2: 10, inf: 10}, 0.9) == pytest.approx(190)
    assert quantile({0.1: 0, inf: 10}, 0.5) == 100


def test_an_agent_that_is_gone_is_said():
    with pytest.raises(EngineError, match=r"LB403.*metrics of nginx at http://127\.0\.0\.1:1/metrics"):
        fetch("nginx", "http://127.0.0.1:1/metrics")
