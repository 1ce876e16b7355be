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
    """`argv` loads `text` from the file of the name `file` in the engine's folder; without text all rules are loaded,
    and then `leftovers` in its place. As long as that file has text, the kernel may lack what it says."""

    file: str
    text: str
    argv: tuple[str, ...]
    leftovers: str = ""


def load_rules(
    change: RulesChange | None,
    setup: tuple[tuple[str, ...], ...],
    write: Callable[[str, str], None],
    run: Callable[[tuple[str, ...]], object],
) -> None:
    """Load the change; where there is none, or the kernel has other rules than those before it, all of `setup`, and
    remove what that leaves.

    `write` writes a file's text, `run` runs a command and raises EngineError where it fails.
    """
    if change is not None and change.text:
        write(change.file, change.text)
        with suppress(EngineError):
            run(change.argv)
            write(change.file, "")
            return
    for command in setup:
        run(command)
    if change is not None:
        if change.leftovers:
            write(change.file, change.leftovers)
            with suppress(EngineError):  # they serve nothing
                run(change.argv)
        write(change.file, "")


def rules_change(
    name: str, spec: ProcessSpec, read: Callable[[str], str], after: Mapping[str, str], *, whole: bool = False
) -> RulesChange | None:
    """The change of that engine's rules to the files `after` (texts by name), with `whole` by loading all of them; None
    for an engine that always does. `read` returns the text of a file as it is, "" without one."""
    target = engine(name)
    if not spec.change or not isinstance(target, Incremental):
        return None
    before = {file: read(file) for file in after}
    whole = whole or bool(read(target.change_file))
    text = "" if whole else target.change(before, after)
    return RulesChange(target.change_file, text, spec.change, target.leftovers(before, after))
