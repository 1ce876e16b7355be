"""The dispatch to swarms and clusters: what is refused, its records, and that nothing is asked without one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.diagnostics import EngineError, LbgenError
from lbgen.runtime import registry, stacks
from lbgen.runtime.common.driver import Action, PartChange, PartKind
from lbgen.runtime.orchestrators import model, run
from lbgen.runtime.orchestrators.model import OrchestratedStack, TaskState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.runtime.common.driver import Progress
    from lbgen.runtime.common.logs import Line
    from lbgen.runtime.orchestrators.model import Deployment, Options, Record

SHOP = lbgen.load(str(Path(__file__).parents[3] / "examples/shop/topology.yaml"))


class Fake:
    """An orchestrator in memory: what runs by name, and the calls."""

    def __init__(self) -> None:
        self.runs: dict[str, Deployment] = {}
        self.calls: list[str] = []
        self.place = "here"
        self.fails = False

    def context(self, record: Record) -> str:
        self.calls.append("context")
        return self.place

    def up(self, wanted: Deployment, options: Options) -> bool:
        self.calls.append("up")
        if self.fails:
            raise EngineError(lbgen.Diagnostic("LB413", "taken back"))
        before = self.runs.get(wanted.record.name)
        self.runs[wanted.record.name] = wanted
        return before is None or dict(before.folder) != dict(wanted.folder)

    def preview(self, wanted: Deployment) -> tuple[PartChange, ...]:
        return (PartChange(PartKind.ENGINE, "haproxy", Action.REPLACE),)

    def state(self, record: Record) -> OrchestratedStack:
        self.calls.append("state")
        tasks = tuple(TaskState(f"{x.part}-1", x.title, x.version, "", "") for x in record.services)
        return OrchestratedStack(record.name, "", 0, 0, True, tasks, record=record)

    def end(self, record: Record, progress: Callable[[Progress], None]) -> None:
        self.calls.append("end")
        self.runs.pop(record.name, None)

    def lines(self, record: Record, engine: str | None, *, follow: bool) -> Iterator[Line]:
        return iter(())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path))
    made = Fake()
    monkeypatch.setitem(run.ORCHESTRATORS, "swarm", made)
    return made


def up(topology: lbgen.Topology = SHOP) -> lbgen.Stack:
    return lbgen.up(topology, engine="haproxy", runtime="swarm")


def test_nothing_is_asked_without_a_record(fake: Fake) -> None:
    assert registry.list_stacks("shop") == ()
    assert not fake.calls


def test_a_stack_is_started_changed_and_removed(fake: Fake) -> None:
    stack = up()
    assert (stack.state.runtime, stack.alive, stack.unchanged) == ("swarm", True, False)
    assert up().unchanged
    assert [each.name for each in stacks.ps("shop")] == ["shop"]
    assert lbgen.preview(SHOP).runtime == "swarm", "the runtime that it runs on"
    smaller = replace(SHOP, model=SHOP.model.model_copy(update={"routes": SHOP.model.routes[1:]}))
    found = lbgen.preview(smaller, by_reload=True)
    assert found.compared is not None
    assert found.compared.requests or found.compared.fields
    assert lbgen.reload(smaller).reloaded, "with the engine of up"
    assert stacks.down("shop").name == "shop"
    assert (fake.runs, model.list_records()) == ({}, ())


def test_a_first_start_that_fails_leaves_nothing(fake: Fake) -> None:
    fake.fails = True
    with pytest.raises(EngineError):
        up()
    assert fake.calls[-1] == "end"
    assert model.list_records() == ()


def test_a_change_that_fails_leaves_the_record(fake: Fake) -> None:
    up()
    before = model.read("shop")
    fake.fails = True
    with pytest.raises(EngineError):
        lbgen.up(SHOP, engine="nginx", runtime="swarm", accept=("all",))
    assert model.read("shop") == before
    assert "end" not in fake.calls


def test_a_stack_is_not_started_twice_in_two_places(fake: Fake) -> None:
    up()
    fake.place = "there"
    with pytest.raises(LbgenError, match=r"LB406.*runs already, on the swarm here"):
        up()


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("LB415", {"engine": "haproxy", "swap": "nginx"}),
        ("LB305", {"engines": ("haproxy", "nginx")}),
        ("LB305", {}),
        ("LB225", {"engine": "haproxy", "replicas": {"web": 2}}),
    ],
)
def test_what_does_not_apply_is_refused(fake: Fake, code: str, arguments: dict[str, object]) -> None:
    with pytest.raises(LbgenError, match=code):
        lbgen.up(SHOP, runtime="swarm", **arguments)
    assert "up" not in fake.calls


def test_a_plan_is_refused(fake: Fake) -> None:
    with pytest.raises(LbgenError, match="LB409"):
        lbgen.up(lbgen.plan(SHOP), engine="haproxy", runtime="swarm")
