"""`lbgen check` where no engine is installed says what to install."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.diagnostics import Diagnostic, EngineError

if TYPE_CHECKING:
    import pytest

SHOP = str(Path(__file__).parents[3] / "examples/shop/topology.yaml")
INSTALL = "pip install 'lbgen[engines]'"


def test_check_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> NoReturn:
        raise EngineError(Diagnostic("LB402", "no executable of it was found"))

    monkeypatch.setattr("lbgen.cli.check.check", missing)
    done = CliRunner().invoke(group, ["check", SHOP])
    assert done.exit_code == 0
    assert f"engines: none of these is installed: {INSTALL}" in done.output


def test_it_does_not_where_one_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(plan: object, name: str, **_: Any) -> list[Diagnostic]:
        if name == "haproxy":
            return []
        raise EngineError(Diagnostic("LB402", "no executable of it was found"))

    monkeypatch.setattr("lbgen.cli.check.check", one)
    assert INSTALL not in CliRunner().invoke(group, ["check", SHOP]).output
