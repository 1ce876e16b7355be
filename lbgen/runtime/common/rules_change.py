"""The part of an engine's rules in the kernel that a reload changes, instead of loading all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.diagnostics import EngineError
from lbgen.engines.api import Incremental, engine

if TYPE_CHECKING:
    from lbgen.engines.api import ProcessSpec


class RulesChange(Struct, frozen=True):
    """`argv` loads `text` from the file of the name `file` in the engine's folder. As long as that has text, the kernel
    may lack what it says, and all rules are loaded."""

    file: str
    text: str
    argv: tuple[str, ...]


def load_rules(
    change: RulesChange | None,
    setup: tuple[tuple[str, ...], ...],
    write: Callable[[str, str], None],
    run: Callable[[tuple[str, ...]], object],
) -> None:
    """Load the change; where there is none, or the kernel has other rules than those before it, all of `setup`.

    `write` writes a file's text, `run` runs a command and raises EngineError where it fails.
    """
    if change is not None:
        write(change.file, change.text)
        with suppress(EngineError):
            run(change.argv)
            write(change.file, "")
            return
    for command in setup:
        run(command)
    if change is not None:
        write(change.file, "")


def rules_change(
    name: str, spec: ProcessSpec, read: Callable[[str], str], after: Mapping[str, str]
) -> RulesChange | None:
    """The change of that engine's rules to the files `after` (texts by name); None where all have to be loaded. `read`
    returns the text of a file as it is, "" without one."""
    target = engine(name)
    if not spec.change or not isinstance(target, Incremental) or read(target.change_file):
        return None
    text = target.change({file: read(file) for file in after}, after)
    return RulesChange(target.change_file, text, spec.change) if text else None
