"""The scenarios of examples/bench are legal, and their claims are judged by all rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import DIRECT, Sample, rows_of
from lbgen.bench.target import choose_target
from lbgen.runtime.common.certificates import write_self_signed
from tests.bench.documents import FIGURES, FOLDER, ORDER, PAGE, REQUEST, Scenario, elsewhere, judge, with_section

CLAIM = {"less": "layer 4", "than": "layer 7", "figure": "cpu", "why": ""}


def test_every_scenario_is_measured() -> None:
    assert sorted(ORDER) == sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("name", ORDER)
def test_a_scenario_s_variants_forward_its_request(name: str, tmp_path: Path) -> None:
    write_self_signed(tmp_path / "cert.pem", tmp_path / "key.pem", ("shop.example",))
    scenario = Scenario.read(name)
    for plan in scenario.plans(tmp_path).values():
        layer_4 = str(plan.listener("web").mode) == "l4"
        assert choose_target(plan, None if layer_4 else REQUEST, "web").route == "all"
        fields = {endpoint.field for pool in plan.pools for endpoint in pool.endpoints}
        assert scenario.delays.keys() <= fields
    assert scenario.only.keys() <= scenario.variants.keys()
    subjects = {f"{engine}, {variant}" for variant in scenario.variants for engine in scenario.engines}
    known = {*scenario.variants, *scenario.engines, *scenario.comparators, *subjects}
    for claim in scenario.claims:
        assert {claim["less"], claim["than"]} <= known
        assert claim["figure"] in FIGURES


@pytest.mark.parametrize("name", ORDER)
def test_the_page_names_systems_that_cannot_run_here(name: str) -> None:
    scenario = Scenario.read(name)
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")
    (section,) = (each for each in sections if each.startswith(f"{scenario.title}\n"))
    assert "\n".join(elsewhere(scenario)) in section


@pytest.mark.parametrize(
    ("layer_4", "layer_7", "verdict"),
    [
        ((10, 11, 12), (20, 21, 22), "agrees"),
        ((20, 21, 22), (10, 11, 12), "**disagrees**"),
        ((10, 11, 20), (19, 21, 22), "not measurable here"),
    ],
)
def test_claims_are_judged_by_all_rounds(layer_4, layer_7, verdict: str) -> None:
    shape = LoadShape(50)
    samples = []
    for one, other in zip(layer_4, layer_7, strict=True):
        for name, micros in ((DIRECT, None), ("nginx, layer 4", one), ("nginx, layer 7", other)):
            load = Load(1000, 100.0, 1.0, 2.0, 0, 0)
            samples.append((name, shape, Sample(load, micros and micros / 1000, micros and 1.0)))
    ((where, _, found),) = judge(CLAIM, rows_of(samples, lambda shape: ("wrk", "")))
    assert (where, found) == ("nginx, 50 connections", verdict)


def test_one_section_of_the_page_is_replaced() -> None:
    page = "# Page\n\nText.\n\n## One\n\nold\n\n## Two\n\nkept\n"
    assert with_section(page, "## One\n\nnew\n") == page.replace("old", "new")
    assert with_section(page, "## Three\n\nnew\n") == f"{page}\n## Three\n\nnew\n"
