"""Stacks on a shared docker daemon: each belongs to the state directory that made it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from lbgen.api import Stack
from lbgen.cli.stacks import down_command as down
from lbgen.diagnostics import UsageError
from lbgen.runtime import registry
from lbgen.runtime.common.driver import Result
from lbgen.runtime.docker import labels
from lbgen.runtime.docker.inspect import ContainerStack
from lbgen.runtime.tiers.group import Group, Member, as_one_stack

if TYPE_CHECKING:
    from pathlib import Path

ELSEWHERE = "the state directory /home/other/.local/state/lbgen"


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "mine"))


def containers(name: str, foreign_owner: str = "") -> ContainerStack:
    return ContainerStack(name, "", 0, 0, True, (), (), owner=foreign_owner)


def runs(monkeypatch: pytest.MonkeyPatch, *stacks: ContainerStack) -> None:
    def found(names: set[str] | None) -> tuple[tuple[ContainerStack, ...], tuple[()]]:
        return tuple(each for each in stacks if names is None or each.name in names), ()

    monkeypatch.setattr(registry, "_containers", found)


def test_labels_name_the_state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = labels.owner_labels()
    assert labels.owner_labels() == own
    assert not labels.foreign_owner(own)
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "other"))
    assert labels.foreign_owner(own) == f"the state directory {tmp_path / 'mine'}"
    assert labels.foreign_owner({}) == "an unknown state directory"


def test_no_stack_of_others_without_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, containers("theirs", ELSEWHERE))
    with pytest.raises(UsageError, match="no stack of this state directory runs") as raised:
        registry.find_stack(None)
    assert raised.value.diagnostics[0].hint == f"theirs belongs to {ELSEWHERE}; name a stack if you mean it"
    assert registry.find_stack("theirs").name == "theirs"


def test_the_only_own_stack_beside_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    runs(monkeypatch, containers("mine"), containers("theirs", ELSEWHERE))
    assert registry.find_stack(None).name == "mine"
    runs(monkeypatch, containers("mine"), containers("second"), containers("theirs", ELSEWHERE))
    with pytest.raises(UsageError, match="several stacks run") as raised:
        registry.find_stack(None)
    assert raised.value.diagnostics[0].hint == "name one: mine, second"


def test_leftovers_of_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "may_have_docker", lambda: True)
    monkeypatch.setattr("lbgen.runtime.docker.inspect.leftover_stacks", lambda: (containers("theirs", ELSEWHERE),))
    assert registry.find_leftovers(None) is None
    assert registry.find_leftovers("theirs") is not None


def test_down_all_leaves_stacks_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks = {each.name: each for each in (containers("mine"), containers("theirs", ELSEWHERE))}
    stopped: list[str] = []

    def stop(name: str) -> Stack:
        stopped.append(name)
        return Stack(stacks[name])

    monkeypatch.setattr("lbgen.cli.stacks.ps", lambda: tuple(Stack.of(Result(each)) for each in stacks.values()))
    monkeypatch.setattr("lbgen.cli.stacks.docker_unreachable", tuple)
    monkeypatch.setattr("lbgen.cli.stacks.down", stop)
    result = CliRunner().invoke(down, ["--all"])
    assert result.exit_code == 0, result.output
    assert stopped == ["mine"]
    assert "theirs is left alone" in result.output


def test_tiers_are_of_others_if_a_part_is() -> None:
    group = Group("edge", "docker", True, (Member("web", 1, "edge", "nginx"),))
    parts = (containers("edge-web-1", ELSEWHERE),)
    assert as_one_stack(group, parts).foreign_owner == ELSEWHERE
    assert not as_one_stack(group, ()).foreign_owner
