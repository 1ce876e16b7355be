"""What features cost: the packaged figures, which of them a plan gets, and what is said to be cheaper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lbgen
from lbgen.engines.api import engine
from lbgen.engines.costs import CHEAPER, FILE, costs
from tests.bench.costs import FEATURES, topology_with
from tests.bench.proxies import write_certificate

L7 = ("envoy", "haproxy", "nginx", "traefik")
DATA: dict[str, Any] = {
    "version": 1,
    "name": "t",
    "profile": "minimal",
    "access_log": "json",
    "listeners": {"web": {"port": 8080}, "db": {"port": 5432, "mode": "l4"}},
    "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}, "sql": {"endpoints": [{"address": "10.0.0.2:54"}]}},
    "routes": [
        {"name": "api", "match": [{"path": {"regex": "/api/[0-9]+"}}], "forward": "app"},
        {"name": "db", "listeners": ["db"], "forward": "sql"},
    ],
}


def test_the_script_measures_what_has_advice() -> None:
    assert set(FEATURES) == set(CHEAPER)


@pytest.mark.parametrize("feature", ["", *FEATURES])
def test_what_is_measured_is_a_topology_that_uses_the_feature(feature: str, tmp_path: Path) -> None:
    write_certificate(tmp_path)
    plan = lbgen.plan(lbgen.load(topology_with(feature), base=tmp_path))
    if feature:
        assert feature in {use.feature for use in plan.uses}


@pytest.mark.parametrize("name", L7)
def test_figures_say_how_they_were_measured(name: str) -> None:
    records = json.loads(Path(lbgen.__file__).parent.joinpath("engines", name, FILE).read_text(encoding="utf-8"))
    for build in records["builds"]:
        assert build["version"].startswith(engine(name).versions)
        assert {"date", "method"} <= build.keys()
        assert build["forward_us"] > 0
        assert build["features"].keys() <= CHEAPER.keys()
        assert all(each["low"] <= each["us"] <= each["high"] for each in build["features"].values())


@pytest.mark.parametrize("name", L7)
def test_a_plan_gets_the_figures_of_what_it_uses(name: str) -> None:
    target = engine(name)
    found = costs(lbgen.plan(lbgen.load(DATA)), target, target.versions[0])
    assert found is not None
    names = {each.feature: each.fields for each in found.features}
    assert names["match.path.regex"] == ("routes[0].match[0].path",)
    assert "access_log" in names
    assert all(each.cheaper for each in found.features)
    assert all(each.noise == (each.low <= 0) for each in found.features)  # what may be nothing
    certain = [each.us for each in found.features if not each.noise]
    assert certain == sorted(certain, reverse=True)


def test_nginx_has_the_figures_of_each_version() -> None:
    plan, target = lbgen.plan(lbgen.load(DATA)), engine("nginx")
    measured = {version: costs(plan, target, version) for version in ("1.31", "1.22")}
    assert {version: found.measured.version.rpartition(".")[0] for version, found in measured.items() if found} == {
        "1.31": "1.31",
        "1.22": "1.22",
    }


def test_an_engine_without_figures_has_none() -> None:
    target = engine("nftables")
    assert costs(lbgen.plan(lbgen.load(DATA)), target, target.versions[0]) is None
