"""`lbgen preview` of local stacks, compared with what `up` and `reload` then do, over kinds of change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.engines.api import engine
from lbgen.runtime.common import state
from lbgen.runtime.common.decision import Action, Kind
from lbgen.runtime.common.executables import find
from lbgen.runtime.local import journal
from lbgen.runtime.local.stand_ins import StandIns
from tests.support.changes import CHANGES, Part, base, walk

if TYPE_CHECKING:
    from lbgen.api import Stack
    from tests.support.changes import Parts

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_800
ENGINES = ("haproxy", "nginx", "envoy", "traefik")
SAMPLE = {
    "haproxy": ("nothing", "listener.port", "pool.endpoint.new", "route.respond", "containers.memory"),
    "nginx": ("pool.health.active", "listener.guarantees", "route.new"),
    "envoy": ("pool.endpoint.gone", "route.timeouts"),
}


def parts(stack: Stack) -> Parts:
    """What runs of a local stack."""
    record = state.read(stack.name)
    assert record is not None
    found: Parts = {}
    stand_ins = StandIns.adopt(state.folder(stack.name)).process
    if stand_ins is not None:
        saved = journal.read(state.folder(stack.name))
        assert saved is not None
        found[Kind.STAND_INS, ""] = Part(str(stand_ins.pid), str(saved.stand_in_set.stand_ins))
    for each in record.engines:
        found[Kind.ENGINE, each.name] = Part(f"{each.pid} {each.started}", str(record.changes))
        if each.agent:
            found[Kind.AGENT, each.name] = Part(str(each.agent), "")
    return found


def need(*names: str) -> None:
    for name in names:
        try:
            find(engine(name), None)
        except EngineError as error:
            pytest.skip(str(error))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """All engines with all changes, those of SAMPLE else."""
    if "name" in metafunc.fixturenames:
        every = metafunc.config.getoption("--preview-changes") == "all"
        metafunc.parametrize("name", ENGINES if every else SAMPLE)


def test_up_does_what_the_preview_says(name: str, request: pytest.FixtureRequest) -> None:
    every = request.config.getoption("--preview-changes") == "all"
    kinds = tuple(CHANGES) if every else SAMPLE[name]
    need(name)
    topology = base("preview", PORT)
    with lbgen.up(lbgen.load(topology), engine=name, runtime="local", accept=("all",)):
        taken, served = walk(topology, kinds, name, "local", PORT, parts)
    assert served >= 0.7 * len(kinds)
    assert taken & {Action.RELOAD, Action.REPLACE}
