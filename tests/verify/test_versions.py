"""`lbgen verify` of the examples on each version of each engine that is here.

A drill (`make test-versions`) tries every example with all faults, else each engine's newest version has one example
and a few faults.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.engines.api import Level, engine
from tests.support.version_results import VERIFY, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _pytest.mark import ParameterSet

    from lbgen.spec.load import Topology

ROOT = Path(__file__).parents[2]
# lab.py runs direct-routing, on hosts of its own.
EXAMPLES = sorted(set((ROOT / "examples").glob("*/topology.yaml")) - {ROOT / "examples/direct-routing/topology.yaml"})
HERE = [subject for subject in engines_on_host() if not subject.gap]
REQUESTS, FEW_REQUESTS, FEW_FAULTS = 300, 40, 10

pytestmark = pytest.mark.engines


def may_serve(topology: Topology, subject: EngineUnderTest) -> bool:
    """Whether the topology leaves the choice to the user, or names this engine, and the engine knows its layer."""
    model = topology.model
    if model.tiers is not None:
        return subject.engine in {tier.engine for tier in model.tiers.values()}
    verdict = engine(subject.engine).verdict("listener.l7", subject.version)
    return verdict.level is not Level.REFUSED or all(each.mode == "l4" for each in model.listeners.values())


def pairs() -> Iterator[ParameterSet]:
    """Each version with the examples that it may serve."""
    loaded = [(path, lbgen.load(path)) for path in EXAMPLES]
    for turn, subject in enumerate(HERE):
        fit = [path for path, topology in loaded if may_serve(topology, subject)]
        is_older = any(x.engine == subject.engine for x in HERE[:turn])
        for number, path in enumerate(fit):
            marks = (pytest.mark.drill,) if is_older or number != turn % len(fit) else ()
            yield pytest.param(path, subject, marks=marks, id=f"{path.parent.name}-{subject.engine}-{subject.version}")


@pytest.mark.parametrize(("path", "subject"), [*pairs()])
def test_an_example_is_green(path: Path, subject: EngineUnderTest, every: bool) -> None:
    limits = (REQUESTS, None) if every else (FEW_REQUESTS, FEW_FAULTS)
    with recorded(VERIFY, subject.engine, subject.version, path.parent.name) as counts:
        topology = lbgen.load(path, settings={f"engines.{subject.engine}.version": subject.version})
        try:
            report = lbgen.verify(
                topology, [subject.engine], accept=("all",), requests=limits[0], most_faults=limits[1]
            )
        except lbgen.EngineError as error:
            if {each.code for each in error.diagnostics} <= {"LB407"}:  # rules in the kernel need root
                pytest.skip(str(error))
            raise
        counts.update(Counter(str(each.state) for each in report.results))
        assert not report.broken
        assert not report.all_refused
        served = [
            (each.engine.rpartition(": ")[2], each.version) for each in report.served
        ]  # "edge: haproxy" of a tier
        assert {version for name, version in served if name == subject.engine} == {subject.binary.version}
