"""`--runtime swarm` on a swarm of three nodes; tests/export/test_docker_swarm_drills.py has the drills."""

from __future__ import annotations

import shlex
import shutil
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime import stacks
from lbgen.runtime.common.driver import Action
from tests.export.swarm_workload import ROOT, Example, in_front, swarm_with_endpoints
from tests.support.command import run_lbgen
from tests.support.daemon import IN_CONTAINERS
from tests.support.drills import LEAST, REFUSED, clients
from tests.support.swarm import why_unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.swarm import Swarm

SHOP = Example("shop", "haproxy")
pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.skipif(bool(why_unavailable()), reason=why_unavailable()),
    pytest.mark.xdist_group("swarm"),
]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    with swarm_with_endpoints(tmp_path_factory.mktemp("swarm")) as made:
        yield made


@pytest.fixture
def clean(nodes: Swarm) -> Iterator[Swarm]:
    yield nodes
    for each in stacks.ps():
        each.down()
    left = [nodes.docker(kind, "ls", "--quiet", "--filter", "label=io.lbgen.swarm") for kind in ("service", "config")]
    assert left == ["", ""]


def test_a_stack_is_rolled_and_removed(clean: Swarm) -> None:
    stack = SHOP.up()
    assert [x.name for x in stack.engines] == ["haproxy-n1", "haproxy-n2", "haproxy-n3"]
    assert not stack.unchanged
    assert SHOP.up().unchanged
    changed = SHOP.topology(1)
    assert [x.action for x in lbgen.preview(changed, by_reload=True).parts] == [Action.INTERRUPT]
    with in_front(clean) as place, clients(place) as counts:
        assert lbgen.reload(changed).reloaded
    assert counts.good > LEAST
    assert not counts.lost
    assert {line.source for line in stacks.requests("shop")} == {"haproxy-n1", "haproxy-n2", "haproxy-n3"}
    assert len(clean.docker("config", "ls", "--quiet", "--filter", "label=io.lbgen.swarm").split()) == 3, "old ones go"


def test_a_configuration_that_is_refused_is_rolled_back(clean: Swarm) -> None:
    SHOP.up()
    with in_front(clean) as place, clients(place) as counts:
        with pytest.raises(EngineError) as caught:
            lbgen.reload(SHOP.topology(1, engines={"haproxy": REFUSED["haproxy"]}))
        assert [x.code for x in caught.value.diagnostics] == ["LB413"]
        assert "no-such-word" in caught.value.diagnostics[0].message
    assert counts.good > LEAST
    assert not counts.lost
    assert SHOP.up().unchanged


@pytest.mark.drill
def test_commands_of_the_page(clean: Swarm, tmp_path: Path) -> None:
    """Those of docs/deploy.md, in their order."""
    page = (ROOT / "docs/deploy.md").read_text(encoding="utf-8").partition("## Swarm")[2]
    written = page.partition("```sh\n")[2].partition("```")[0].splitlines()
    commands = [shlex.split(line.partition("#")[0]) for line in written]
    assert len(commands) > 5
    shutil.copy(ROOT / "examples/shop/topology.yaml", tmp_path / "shop.yaml")
    for _, *arguments in commands:
        done = run_lbgen(*arguments, cwd=tmp_path)
        assert not done.returncode, done.stderr
