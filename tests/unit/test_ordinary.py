"""Topologies that people run every day need no --accept on any L7 engine, and their files stay short."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import lbgen
from lbgen.engines.api import engine
from lbgen.engines.verdicts import judge
from lbgen.plan.resolve import plan as resolve
from tests.support.engine_lists import L7_ENGINES
from tests.support.plans import examples

FOLDER = Path(__file__).parents[1] / "ordinary"
TOPOLOGIES = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture
def load(tmp_path: Path):
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/sticky.key").write_text("0" * 64)

    def loaded(name: str) -> lbgen.Plan:
        data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        return resolve(lbgen.load(data, base=tmp_path))

    return loaded


@pytest.mark.parametrize("name", L7_ENGINES)
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_an_ordinary_topology_needs_no_accept(topology: str, name: str, load) -> None:
    target = engine(name)
    _, stops = judge(load(topology), target, target.versions[0])
    assert not [f"{stop.field}: {stop.message}" for stop in stops]


MOST = {
    "shop": {"nginx": 150, "haproxy": 110, "envoy": 300, "traefik": 100},
    "api-gateway": {"nginx": 280, "haproxy": 200, "envoy": 520, "traefik": 130},
}
CODE = (".lua", ".js", ".go", ".mod", ".yml")  # the last is that of Traefik's plugin


@pytest.mark.parametrize("name", L7_ENGINES)
@pytest.mark.parametrize("topology", MOST)
def test_its_files_stay_short(topology: str, name: str, load) -> None:
    """Lines that an engine reads, without blank ones and comments."""
    made = examples()["shop"] if topology == "shop" else load(topology)
    target = engine(name)
    files = [each.text for each in target.render(made, target.versions[0]) if not each.name.endswith(CODE)]
    lines = [line.strip() for text in files for line in text.splitlines()]
    assert 40 < sum(1 for line in lines if line and not line.startswith("#")) <= MOST[topology][name]
