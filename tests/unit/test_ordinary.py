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
