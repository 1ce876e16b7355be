"""The cases of the benchmark: their topologies, and what a failed one leaves."""

from __future__ import annotations

import pytest
import yaml

import lbgen
from lbgen.engines.api import Binary
from tests.bench import cases, goals
from tests.bench.cases import CASES, TOPOLOGIES, Bench, routes_topology, run
from tests.bench.proxies import ENGINES, BenchError, Build, write_certificate


def build(tmp_path, engine: str = "nginx") -> Build:
    return Build(engine, Binary(tmp_path / "engine", "1.31.3"), "1.31")


@pytest.mark.parametrize("name", sorted(path.stem for path in TOPOLOGIES.glob("*.yaml")))
def test_topologies_have_a_plan(name: str, tmp_path) -> None:
    write_certificate(tmp_path)
    text = yaml.safe_load((TOPOLOGIES / f"{name}.yaml").read_text(encoding="utf-8"))
    assert lbgen.plan(lbgen.load(text, base=tmp_path)).listener("web").port == 8080


@pytest.mark.parametrize("shape", ["paths", "hosts"])
def test_many_routes_lead_to_one_pool(shape: str) -> None:
    plan = lbgen.plan(lbgen.load(routes_topology(7, shape)))
    assert [route.name for route in plan.routes] == [f"r{n}" for n in range(7)]
    assert len(plan.pools) == 1


def test_a_case_that_fails_misses_its_goal(tmp_path, monkeypatch) -> None:
    def fails(*_) -> None:
        raise BenchError("it did not start\nwith more lines")

    monkeypatch.setitem(CASES, "minimal", fails)
    found = run("minimal", build(tmp_path, "haproxy"), Bench(tmp_path))
    assert [(each.missing, each.goal, each.passed) for each in found] == [
        ("it did not start", goals.CPU["minimal"]["haproxy"], False)
    ]


def test_every_engine_has_its_goals() -> None:
    for by_engine in (*goals.CPU.values(), goals.LINES, goals.ROUTES):
        assert set(by_engine) == set(ENGINES)
    assert set(goals.CPU) <= set(cases.CASES)
