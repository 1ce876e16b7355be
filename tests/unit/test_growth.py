"""Work grows as the routes do: twice the routes, at most 2.2 times the calls."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.conformance.corpus import corpus
from lbgen.conformance.difference import compare
from lbgen.conformance.verify.asked import asks
from lbgen.engines.api import engine, engine_names, target_version
from lbgen.engines.verdicts import answers
from lbgen.plan.resolve import findings
from lbgen.plan.simulate import Request, simulate
from lbgen.runtime import readiness
from lbgen.spec.load import load_bytes
from tests.growth import growth, topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from lbgen.plan.model import Plan
    from lbgen.spec.load import Topology

ROUTES = 60
NAMES = [name for name in engine_names() if name != "nftables"]


@cache
def raw(routes: int, *, changed: bool = False, listeners: int = 1) -> bytes:
    return topology(routes, hosts=10, pools=5, changed=changed, listeners=listeners).encode()


def load(routes: int, *, changed: bool = False, listeners: int = 1) -> Topology:
    return load_bytes(raw(routes, changed=changed, listeners=listeners), "growth.yaml", Path.cwd())


@cache
def plan(routes: int, *, changed: bool = False, listeners: int = 1) -> Plan:
    return lbgen.plan(load(routes, changed=changed, listeners=listeners))


def loading(routes: int) -> Callable[[], object]:
    return lambda: load(routes)


def checking(routes: int) -> Callable[[], object]:
    loaded = load(routes, listeners=2)
    return lambda: findings(loaded, files=True)


def planning(routes: int) -> Callable[[], object]:
    loaded = load(routes)
    return lambda: lbgen.plan(loaded)


def routing(routes: int) -> Callable[[], object]:
    found, asked = plan(routes), Request(target="/s1/x", headers=(("Host", "h1.example.com"),))
    return lambda: simulate(found, asked).losers


def simulating(routes: int) -> Callable[[], object]:
    """As many requests as routes: each costs the same, however many routes there are."""
    found = plan(routes)
    requests = [
        Request(target=f"/s{n}/x", headers=(("Host", f"h{n % 10}.example.com"),), listener="web") for n in range(routes)
    ]
    return lambda: [simulate(found, each).route for each in requests]


def comparing(routes: int) -> Callable[[], object]:
    before, after = plan(routes), plan(routes, changed=True)
    return lambda: compare(before, after)


def readying(routes: int) -> Callable[[], object]:
    before, after = plan(routes, listeners=2), plan(routes, changed=True, listeners=2)

    def work() -> None:
        readiness.unasked(after, readiness.probes(after), "engine")
        readiness.turned(before, after)

    return work


@pytest.mark.parametrize(
    "work",
    [
        *(loading, checking, planning, routing, simulating, comparing, readying),
        lambda n: lambda: corpus(plan(n)),
        lambda n: lambda: list(asks(plan(n))),
    ],
    ids=["load", "check", "plan", "route", "simulate", "diff", "readiness", "corpus", "verify's requests"],
)
def test_twice_the_routes_cost_twice(work: Callable[[int], Callable[[], object]]) -> None:
    found = growth(work, ROUTES)
    assert found.linear, found


@pytest.mark.parametrize("name", NAMES)
def test_rendering_twice_the_routes_costs_twice(name: str) -> None:
    def rendering(routes: int) -> Callable[[], object]:
        found = plan(routes, listeners=2)
        return lambda: lbgen.render(found, engine=name, accept=("all",))

    found = growth(rendering, ROUTES)
    assert found.linear, found


@pytest.mark.parametrize("name", NAMES)
def test_explaining_twice_the_routes_costs_twice(name: str) -> None:
    target = engine(name)

    def explaining(routes: int) -> Callable[[], object]:
        found = plan(routes, listeners=2)
        return lambda: answers(found, target, target_version(target, None))

    found = growth(explaining, ROUTES)
    assert found.linear, found
