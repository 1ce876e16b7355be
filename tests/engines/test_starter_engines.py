"""Every topology that `lbgen init` writes is served by all engines as it stands (tests/unit has its findings)."""

from __future__ import annotations

import ssl
import urllib.request
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import lbgen
from lbgen.cli.main import group
from lbgen.diagnostics import EngineError
from lbgen.engines.api import engine
from lbgen.runtime.common.executables import find
from lbgen.runtime.local.check import check
from lbgen.spec.starter import starters
from tests.support.sample import sample

if TYPE_CHECKING:
    from pathlib import Path

CAN = ("envoy", "haproxy", "nginx", "traefik")

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory: the topology is named by a relative path, as a newcomer does."""
    monkeypatch.chdir(tmp_path)


def written(template: str) -> lbgen.Topology:
    """What `lbgen init --template` writes, loaded."""
    done = CliRunner().invoke(group, ["init", "--template", template])
    assert done.exit_code == 0, done.output
    return lbgen.load("topology.yaml")


def present() -> list[str]:
    found = []
    for name in CAN:
        try:
            find(engine(name))
        except EngineError:
            continue
        found.append(name)
    return found


@pytest.mark.parametrize("template", sample(starters(), ("gateway", "l4")))
def test_a_starter_pleases_the_checker_of_every_engine(template: str) -> None:
    topology = written(template)
    for name in present():
        assert check(lbgen.plan(topology), name) == ()


def test_up_serves_the_starter_with_tls_on_every_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its certificate. The others: tests/verify, and `make drills` (test_first_contact)."""
    if not (engines := present()):
        pytest.skip("no engine")
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    topology = written("tls")
    with lbgen.up(topology, engines, runtime="local") as stack:  # every route has answered as the oracle says
        assert {one.name for one in stack.engines} == set(engines)
        trust = ssl.create_default_context(cafile=str(tmp_path / "certs/site.crt"))
        for name in engines:
            url = stack.url("https", engine=name).replace("127.0.0.1", "localhost")
            with urllib.request.urlopen(url, timeout=5, context=trust) as answer:
                assert answer.status == 200
