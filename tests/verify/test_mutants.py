"""`lbgen verify` finds what a hand has changed in rendered files: a time, a retry, the order of two rules.

A drill tries every mutant of every engine (half an hour; `-rP` tells what found each); else there are two.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.engines.api import Level
from lbgen.engines.api import engine as engine_of
from lbgen.runtime.local import network
from lbgen.spec.source import read_file
from tests.support.sample import sample
from tests.verify import mutants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.conformance.verify.report import Report
    from lbgen.plan.model import Plan

HERE = Path(__file__).parent
ENGINES = ("envoy", "haproxy", "nginx", "traefik")
KINDS = {"time": mutants.times, "retry": mutants.retries, "order": mutants.swaps}
AT_ONCE = 3
SAMPLE = (("haproxy", "time"), ("nginx", "order"))  # the others are drills
SEED = int(os.environ.get("LBGEN_MUTANTS_SEED", "1"))

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.skipif(bool(network.why_unavailable()), reason=network.why_unavailable() or "it is possible"),
]


def plan_for(engine: str) -> Plan:
    """The topology, without what the engine refuses."""
    subject = engines_on_host((engine,))[0]
    if subject.binary is None:
        pytest.skip(subject.gap)
    data = read_file(HERE / "mutants.yaml").data
    target = engine_of(engine)
    if target.verdict("listener.timeouts", subject.version).level is Level.REFUSED:
        del data["client_timeouts"]
    if target.verdict("route.retries", subject.version).level is Level.REFUSED:
        data["routes"] = [{key: route[key] for key in route if key != "retries"} for route in data["routes"]]
    return lbgen.plan(lbgen.load(data))


@pytest.mark.parametrize("engine", sample(ENGINES, ()))
def test_what_is_rendered_is_green(engine: str, tmp_path: Path) -> None:
    plan = plan_for(engine)
    mutants.files_of(plan, engine).write(tmp_path / engine)
    report = lbgen.verify(plan, [engine], accept=("all",), rendered=tmp_path)
    assert not report.broken
    assert [f"{x.case}: {x.detail}" for x in report.differences] == []
    assert {served.edits for served in report.served} == {()}


@pytest.mark.parametrize(("engine", "kind"), sample(product(ENGINES, KINDS), SAMPLE))
def test_mutants_are_found(engine: str, kind: str, tmp_path: Path, every: bool) -> None:
    plan = plan_for(engine)
    if kind == "retry" and not any(getattr(route.action, "retries", None) for route in plan.routes):
        pytest.skip(f"{engine} refuses retries")
    make: Callable[[Plan, str], Iterator[mutants.Mutant]] = KINDS[kind]
    found = list(make(plan, engine))
    assert found, "nothing to change"
    tried = found if every else random.Random(f"{SEED} {engine} {kind}").sample(found, 1)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        reports = list(pool.map(lambda n: verified(tried[n], plan, engine, tmp_path / str(n)), range(len(tried))))
    survivors = []
    for mutant, report in zip(tried, reports, strict=True):
        assert any(served.edits for served in report.served), f"{mutant.name} changed nothing"
        told = Counter(x.clause for x in report.differences if x.clause[0] != "S").most_common(4)
        print(f"{engine} {kind} | {mutant.name} | {told}")  # noqa: T201  # read with -s or -rP
        if not told:
            survivors.append(mutant.name)
    assert survivors == [], f"of {len(tried)} mutants"


def verified(mutant: mutants.Mutant, plan: Plan, engine: str, folder: Path) -> Report:
    mutant.files.write(folder / engine)
    return lbgen.verify(plan, [engine], accept=("all",), rendered=folder)
