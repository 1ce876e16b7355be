"""Work grows as the routes do: twice the routes, at most 2.2 times the lines and calls."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.conformance.corpus import corpus
from lbgen.conformance.topology_diff import compare
from lbgen.conformance.verify.requests import clause_requests
from lbgen.engines.api import engine, target_version
from lbgen.engines.haproxy import backend_selection, rewrites
from lbgen.engines.traefik import routers
from lbgen.engines.verdicts import answers
from lbgen.plan.request import Request
from lbgen.plan.resolve import findings
from lbgen.plan.simulate import simulate
from lbgen.runtime.common import readiness
from lbgen.runtime.common.route_probes import make_probes, probes_of_change
from lbgen.spec.load import load_bytes
from tests.support.engine_lists import L7_ENGINES
from tests.support.growth import calls_per_route, growth, rich_topology, topology
from tests.support.sample import sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.plan.model import Plan
    from lbgen.spec.load import Topology

ROUTES = 36  # of `rich_topology` twice as many have every kind of route and pool twice as often
NAMES = L7_ENGINES


# Hosts and pools are as many as the routes need, or some per route: what is linear in each is so in both shapes.
SHAPES: dict[str, Callable[..., str]] = {"plain": partial(topology, hosts=10, pools=5), "rich": rich_topology}


@cache
def raw(shape: str, routes: int, *, changed: bool = False, listeners: int = 1) -> bytes:
    return SHAPES[shape](routes, changed=changed, listeners=listeners).encode()


def load(shape: str, routes: int, *, changed: bool = False, listeners: int = 1) -> Topology:
    return load_bytes(raw(shape, routes, changed=changed, listeners=listeners), "growth.yaml", Path.cwd())


@cache
def plan(shape: str, routes: int, *, changed: bool = False, listeners: int = 1) -> Plan:
    return lbgen.plan(load(shape, routes, changed=changed, listeners=listeners))


def loading(shape: str, routes: int) -> Callable[[], object]:
    return lambda: load(shape, routes)


def checking(shape: str, routes: int) -> Callable[[], object]:
    loaded = load(shape, routes, listeners=2)
    return lambda: findings(loaded, files=True)


def planning(shape: str, routes: int) -> Callable[[], object]:
    loaded = load(shape, routes)
    return lambda: lbgen.plan(loaded)


def routing(shape: str, routes: int) -> Callable[[], object]:
    found, asked = plan(shape, routes), Request(target="/s1/x", headers=(("Host", "h1.example.com"),))
    return lambda: simulate(found, asked).losers


def simulating(shape: str, routes: int) -> Callable[[], object]:
    """As many requests as routes: each costs the same, however many routes there are."""
    found = plan(shape, routes)
    requests = [
        Request(target=f"/s{n}/x", headers=(("Host", f"h{n % (10)}.example.com"),), listener="web")
        for n in range(routes)
    ]
    return lambda: [simulate(found, each).route for each in requests]


def comparing(shape: str, routes: int) -> Callable[[], object]:
    before, after = plan(shape, routes), plan(shape, routes, changed=True)
    return lambda: compare(before, after)


def readying(shape: str, routes: int) -> Callable[[], object]:
    before, after = plan(shape, routes, listeners=2), plan(shape, routes, changed=True, listeners=2)

    def work() -> None:
        readiness.unreachable_routes(after, make_probes(after), "engine")
        probes_of_change(before, after)

    return work


@pytest.mark.parametrize("shape", sample(SHAPES, ("rich",)))
@pytest.mark.parametrize(
    "work",
    [
        *(loading, checking, planning, routing, simulating, comparing, readying),
        lambda shape, n: lambda: corpus(plan(shape, n)),
        lambda shape, n: lambda: list(clause_requests(plan(shape, n))),
    ],
    ids=["load", "check", "plan", "route", "simulate", "diff", "readiness", "corpus", "verify's requests"],
)
def test_twice_the_routes_cost_twice(shape: str, work: Callable[[str, int], Callable[[], object]]) -> None:
    found = growth(partial(work, shape), ROUTES)
    assert found.linear, found


@pytest.mark.parametrize("shape", sample(SHAPES, ("rich",)))
@pytest.mark.parametrize("name", NAMES)
def test_rendering_twice_the_routes_costs_twice(shape: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, limit in ((backend_selection, "_MOST_LISTED"), (rewrites, "_MOST_IN_PLACE"), (routers, "MOST")):
        monkeypatch.setattr(module, limit, 0)  # few are listed, many are looked up: compare the latter

    def rendering(routes: int) -> Callable[[], object]:
        found = plan(shape, routes, listeners=2)
        return lambda: lbgen.render(found, engine=name, accept=("all",))

    found = growth(rendering, ROUTES)
    assert found.linear, found


@pytest.mark.parametrize("name", ["nginx", "haproxy", "envoy", "traefik"])
def test_a_plain_route_costs_few_calls(name: str) -> None:
    """Work that all routes share is done once; at a thousand calls 10,000 routes take some seconds."""

    def rendering(routes: int) -> Callable[[], object]:
        raw = topology(routes, hosts=5, pools=5).encode()
        return lambda: lbgen.render(load_bytes(raw, "growth.yaml", Path.cwd()), engine=name, accept=("all",))

    assert calls_per_route(rendering, 200) < 1000


@pytest.mark.parametrize("shape", sample(SHAPES, ("rich",)))
@pytest.mark.parametrize("name", NAMES)
def test_explaining_twice_the_routes_costs_twice(shape: str, name: str) -> None:
    target = engine(name)

    def explaining(routes: int) -> Callable[[], object]:
        found = plan(shape, routes, listeners=2)
        return lambda: answers(found, target, target_version(target, None))

    found = growth(explaining, ROUTES)
    assert found.linear, found


@pytest.mark.parametrize("work", [lbgen.render, lbgen.explain], ids=["render", "explain"])
def test_twice_the_routes_cost_twice_on_aws(work: Callable[..., object]) -> None:
    """Of plain routes, as it refuses others."""

    def working(routes: int) -> Callable[[], object]:
        found = plan("plain", routes, listeners=2)
        return lambda: work(found, engine="aws", accept=("all",))

    found = growth(working, ROUTES)
    assert found.linear, found
