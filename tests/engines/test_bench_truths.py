"""Benchmarks find what is known to be there: no connections kept to endpoints, a log without its buffer, a regex after
a thousand others, a slow endpoint, nothing at all."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.bench.cost import CONNECTIONS, WHOLE, Added, cost, costs_of
from lbgen.bench.gate import verified_engines
from lbgen.bench.load import Generators, LoadShape
from lbgen.bench.rounds import run_together
from lbgen.bench.subjects import Subject, Unit, apart, engine_cores, running
from lbgen.bench.target import choose_target
from lbgen.conformance.free_ports import FreePorts
from lbgen.engines.rendered import render_with
from lbgen.plan.overlay import with_ports, with_workers
from lbgen.plan.request import Request
from lbgen.runtime.common.executables import environment_variable
from lbgen.runtime.local.process import run_engine
from tests.support.engine_lists import need_binary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.bench.report import Sample
    from lbgen.runtime.local.messages import EngineChoice

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed"),
]
OLD_NGINX = Path("/usr/sbin/nginx")  # Debian's, before 1.29.7 made keep-alive to endpoints the default
ROUNDS, ROUTES = 4, 1000
MANY = 24  # rounds of a pair that differs by a microsecond
CONSTANT = LoadShape(20, 500)


def topology(endpoints: int = 1, **more: Any) -> Any:
    """Plain forwarding, and what `more` sets."""
    return lbgen.load(
        {
            "version": 1,
            "name": "truth",
            "profile": "minimal",
            "listeners": {"web": {"port": 8080}},
            "pools": {"app": {"endpoints": [{"address": f"10.0.0.{n + 1}:80"} for n in range(endpoints)]}},
            "routes": [{"name": "all", "forward": "app"}],
            **more,
        }
    )


@contextmanager
def pair(asked: Any, engine: str, edit: Callable[[str], str]) -> Iterator[tuple[Subject, Subject]]:
    """An engine on a topology, and the same with edited files, before one endpoint."""
    plan = with_workers(lbgen.plan(asked), max(1, len(engine_cores())))
    target = choose_target(plan)
    ((choice, _),), _ = verified_engines(plan, (engine,), (), 10, lambda event: None)
    with running([Unit("whole", choice, plan, target)], ()) as ((direct, whole), failed):
        assert not failed
        assert whole.process is not None
        other = with_ports(whole.process.plan, {"web": FreePorts(avoid={whole.port}).take()})
        files = _edited(choice, other, edit)
        with run_engine(choice.engine, other, choice.binary, rendered=files) as process:
            edited = Subject("edited", other.listener("web").port, target, process)
            with apart([*whole.leaders(), *edited.leaders()], [direct.answering or 0]):
                yield whole, edited


def _edited(choice: EngineChoice, plan: Any, edit: Callable[[str], str]) -> Any:
    rendered = render_with(choice.engine, plan, choice.version, ())
    return rendered.with_files(replace(x, text=edit(x.text)) for x in rendered.files)


def added(whole: Subject, part: Subject, rounds: int) -> tuple[Added, Added]:
    """What the first adds to the second: CPU microseconds per request in closed loops, and milliseconds of p50 at a
    constant rate; as `lbgen bench --cost` measures it."""
    generators = Generators.find()
    every: list[list[dict[str, Sample]]] = []
    for shape in (LoadShape(CONNECTIONS), CONSTANT):
        loads = {each.name: (each, shape) for each in (whole, part)}
        run_together(generators, loads, 1)
        every.append([run_together(generators, loads, 1) for _ in range(rounds)])
    pairs, steady = every
    cpu = [_micros(x[whole.name]) - _micros(x[part.name]) for x in pairs]
    p50 = [x[whole.name].load.p50_ms - x[part.name].load.p50_ms for x in steady]
    one = pairs[0][part.name], steady[0][part.name]
    return Added.of({"": cpu}, _micros(one[0]))[""], Added.of({"": p50}, one[1].load.p50_ms)[""]


def _micros(sample: Sample) -> float:
    return (sample.cpu or 0.0) * 1e6 / sample.load.requests


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


@pytest.mark.measures
def test_nginx_without_the_buffer_of_its_access_log_takes_more_cpu() -> None:
    need_binary("nginx")

    def unbuffer(text: str) -> str:
        assert " buffer=64k flush=1s" in text
        return text.replace(" buffer=64k flush=1s", "")

    with pair(topology(access_log="json"), "nginx", unbuffer) as (whole, edited):
        cpu, _ = added(edited, whole, MANY)
    assert cpu.measurable, cpu
    assert cpu.mean > 0, cpu


@pytest.mark.measures
def test_regexes_that_nginx_tries_in_order_are_in_the_price_of_other_routes() -> None:
    need_binary("nginx")
    routes = [
        {"name": f"r{n}", "match": [{"path": {"regex": f"/products/[a-z]+/{n}/[0-9]+"}}], "forward": "app"}
        for n in range(ROUTES)
    ]
    last = {"name": "last", "match": [{"path": {"regex": "/p[a-z]+/x/[0-9]+"}}], "forward": "app"}
    request = Request("GET", "/products/x/7", (("Host", "a.example"),), "web")
    found = cost(topology(routes=[*routes, last]), ("nginx",), request=request, rounds=ROUNDS)
    (engine,) = found.costs
    price = next(x for x in engine.features if x.feature == "other routes")
    assert price.cpu_interval[0] > 0, price
