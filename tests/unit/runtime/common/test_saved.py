"""The saved plan of a stack: read back unchanged, and only from files that this lbgen wrote."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.engines.api import Binary
from lbgen.runtime.common.driver import ReloadOptions
from lbgen.runtime.common.processes import ProcessId
from lbgen.runtime.common.state import StackState
from lbgen.runtime.docker import labels, stack
from lbgen.runtime.docker.labels import SavedPlan
from lbgen.runtime.local import stack_processes
from lbgen.runtime.local.messages import EngineChoice, StartRequest
from lbgen.runtime.local.stack_processes import SavedNetwork
from lbgen.runtime.standins.plan import StandInSet
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.plans import examples

TOPOLOGIES = Path(__file__).parents[3] / "golden/topologies"
PLANS = examples() | {path.stem: lbgen.plan(lbgen.load(path)) for path in sorted(TOPOLOGIES.glob("*.yaml"))}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))


def made(example: str = "shop") -> SavedPlan:
    stand_in_set = StandInSet(
        (StandIn("pools.a.endpoints[0]", "a", "10.0.0.1", 80),), {"pools.a.endpoints[0]": 80}, Path("/x")
    )
    return SavedPlan(PLANS[example], stand_in_set, ("all",), backends=True)


@pytest.mark.parametrize("example", PLANS)
def test_it_comes_back(example: str) -> None:
    wanted = made(example)
    wanted.write()
    assert labels.read_saved_plan(wanted.plan.name) == wanted
    assert (labels.saved_folder(wanted.plan.name) / "kept").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("example", PLANS)
def test_what_a_supervisor_saved_comes_back(example: str, tmp_path: Path) -> None:
    plan, stand_in_set = PLANS[example], made(example).stand_in_set
    engine = EngineChoice(
        "nginx", "nginx", "1.22", Binary(Path("/n"), "1.22.1", (Path("/m.so"),)), False, ("::1",), 1000
    )
    order = StartRequest(plan.name, "/stack", plan, (engine,), ("all",), True, 20.0)
    network = SavedNetwork("10.0.0.1", "10.0.0.2", "lb0", ProcessId(7, 9))
    value = stack_processes.SavedStack(3, order, stand_in_set, (("nginx", network),), (("nginx", engine.binary),))
    stack_processes.write_saved(tmp_path, value)
    assert stack_processes.read_saved(tmp_path) == value
    unknown = replace(value, request=replace(order, engines=(replace(engine, name="fake"),)))
    stack_processes.write_saved(tmp_path, unknown)
    assert stack_processes.read_saved(tmp_path) is None


def test_a_plan_in_the_pickle_of_an_older_lbgen_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = made()
    wanted.write()
    name, file = wanted.plan.name, labels.saved_folder(wanted.plan.name) / "kept"
    version = file.read_bytes().splitlines(keepends=True)[0]
    for begin in (b"lbgen 0123456789abcdef\n", version):
        file.write_bytes(begin + pickle.dumps(wanted))
        assert labels.read_saved_plan(name) is None
    client = SimpleNamespace(containers=SimpleNamespace(list=lambda **_: []))
    monkeypatch.setattr(stack, "connect", lambda **_: client)
    state = StackState(name, "", 0, 0)
    with pytest.raises(EngineError, match=r"LB412: another user, or another lbgen, made the containers of shop"):
        stack.reload(state, wanted.plan, ReloadOptions((), print, 1))


def test_another_lbgens_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = made()
    wanted.write()
    monkeypatch.setattr(labels, "PLAN_SCHEMA", labels.PLAN_SCHEMA + 1)
    assert labels.read_saved_plan(wanted.plan.name) is None


def test_what_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(EngineError, match=r"LB408: .*/kept: No space left on device; free some space"):
        made().write()
    monkeypatch.undo()
