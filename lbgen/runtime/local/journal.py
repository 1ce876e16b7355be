"""What a supervisor keeps on disk beside the record, so that another one can take the stack over from it at any moment.

`write` is the one moment in which a change becomes the state to serve. Between `begin` and `end` a change is under way:
who finds the mark of the generation that is saved goes back to that generation.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.runtime.common import saved
from lbgen.runtime.common.state import store

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.engines.api import Binary
    from lbgen.runtime.common.process_id import ProcessId
    from lbgen.runtime.local.messages import StartRequest
    from lbgen.runtime.standins.plan import Cast

_FILE, _MARK = "saved", "changing"


@dataclass(frozen=True, slots=True)
class SavedNetwork:
    """As `network.Network`."""

    host: str
    inside: str
    device: str
    holder: ProcessId


@dataclass(frozen=True, slots=True)
class SavedStack:
    """What a stack serves: `cast` plays the plan of `order`, `binaries` are the executables as they run (copies where
    their user cannot reach the original). `generation` counts the changes since its start."""

    generation: int
    request: StartRequest
    cast: Cast
    networks: tuple[tuple[str, SavedNetwork], ...]
    binaries: tuple[tuple[str, Binary], ...]


def write(folder: Path, value: SavedStack) -> None:
    """Make that what the stack serves. Raises EngineError LB408."""
    saved.write(folder / _FILE, value)


def read(folder: Path) -> SavedStack | None:
    """None where there is none that this lbgen understands, also of engines that are not installed."""
    found = saved.read(folder / _FILE)
    return found if isinstance(found, SavedStack) else None


def begin(folder: Path, generation: int) -> None:
    """Note that a change of that generation is under way. Raises EngineError LB408."""
    store(folder / _MARK, str(generation).encode())


def end(folder: Path) -> None:
    """Note that it is over. Raises OSError."""
    (folder / _MARK).unlink(missing_ok=True)


def has_unfinished_change(folder: Path, generation: int) -> bool:
    """Whether a change of that generation was begun and neither made nor taken back."""
    with suppress(FileNotFoundError):
        return (folder / _MARK).read_text(encoding="ascii").strip() == str(generation)
    return False
