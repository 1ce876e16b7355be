"""Benchmarks find what is known to be there: no connections kept to endpoints, a slow endpoint, nothing at all."""

from __future__ import annotations

import shutil
from pathlib import Path
from statistics import median

import pytest

import lbgen
from lbgen.bench.cost import WHOLE, costs_of
from lbgen.bench.gate import verified_engines
from lbgen.bench.load import Generators, LoadShape
from lbgen.bench.rounds import run_together
from lbgen.bench.subjects import Unit, running
from lbgen.bench.target import choose_target
from lbgen.runtime.common.executables import environment_variable
from tests.bench.truths import topology
from tests.support.engine_lists import need_binary

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed"),
]
OLD_NGINX = Path("/usr/sbin/nginx")  # Debian's, before 1.29.7 made keep-alive to endpoints the default


@pytest.fixture
def haproxy() -> None:
    need_binary("haproxy")


@pytest.mark.measures
@pytest.mark.skipif(not OLD_NGINX.exists(), reason="Debian's nginx is not installed")
def test_nginx_without_connections_kept_to_endpoints_is_twice_as_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In CPU per request, of both at the same time on the same core: the same request costs up to twice as much where
    others use the core, its caches or the other half of it. The core is busy, as a proxy with little to do wakes up for
    each request, which costs the same with either."""
    monkeypatch.setenv(environment_variable("nginx"), str(OLD_NGINX))
    kept, fresh = topology(), topology().replace({"pools.app.connections.keepalive": 0})
    target, generators = choose_target(lbgen.plan(kept)), Generators.find()
    units = []
    for name, variant in (("kept", kept), ("fresh", fresh)):
        ((choice, _),), _ = verified_engines(lbgen.plan(variant), ("nginx",), (), 10, lambda event: None)
        units.append(Unit(name, choice, lbgen.plan(variant), target))
    with running(units, (), separate=True) as ((_, *subjects), failed):
        assert not failed
        loads = {x.name: (x, LoadShape(50)) for x in subjects}
        rounds = [run_together(generators, loads, 1) for _ in range(7)][1:]  # the first warms them up
    cpu = [{name: x.cpu / x.load.requests * 1e6 for name, x in each.items() if x.cpu is not None} for each in rounds]
    assert median(x["fresh"] / x["kept"] for x in cpu) > 2, cpu
    assert min(x["fresh"] for x in cpu) > max(x["kept"] for x in cpu), cpu


@pytest.mark.measures
def test_a_slow_endpoint_of_three_shows_in_the_slow_percentiles_alone(haproxy: None) -> None:
    slow = {"pools.app.endpoints[1]": 0.02}
    few = {"connections": (1,), "rates": (60,), "seconds": 2, "rounds": 3, "requests": 10}
    found = lbgen.bench(topology(3), ("haproxy",), delays=slow, **few)
    direct, row = (x for x in found.rows if x.shape.rate is not None)
    assert row.p95_ms is not None
    assert direct.p95_ms is not None
    assert row.p50_ms.median < 20 <= row.p95_ms.median
    assert direct.p95_ms.median < row.p95_ms.median
    assert "pools.app.endpoints[1] answers 20 ms late" in found.notes


@pytest.mark.measures
def test_equal_configurations_have_no_price(haproxy: None) -> None:
    plan = lbgen.plan(topology())
    target, generators = choose_target(plan), Generators.find()
    good, _ = verified_engines(plan, ("haproxy",), (), 10, lambda event: None)
    ((choice, measured),) = good
    late = {"pools.app.endpoints[0]": 0.01}  # or the loops would take all that the CPUs have
    units = [Unit(name, choice, plan, target) for name in (WHOLE, "nothing")]
    with running(units, (), late) as ((_, *subjects), failed):
        assert not failed
        every = [
            [run_together(generators, {x.name: (x, shape) for x in subjects}, 1) for _ in range(6)]
            for shape in (LoadShape(25), LoadShape(20, 500))
        ]
    pairs, steady = (found[1:] for found in every)  # the first warms them up
    (price,) = costs_of(measured, 500, {"nothing": [(x[WHOLE], x["nothing"]) for x in pairs]}, steady, {}).features
    assert not price.cpu_measurable, price
    assert not price.p50_measurable, price
