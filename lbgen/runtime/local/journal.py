"""The state that a supervisor saves beside the record, so that another supervisor can take the stack over at any time.

`write` commits a change. Between `begin` and `end` a change is under way: a supervisor that finds the mark of the saved
generation rolls back to that generation.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from lbgen.engines.api import Binary, engine_names
from lbgen.records import replace
from lbgen.runtime.common import saved
from lbgen.runtime.common.process_id import ProcessId  # noqa: TC001  # read at run time by saved
from lbgen.runtime.common.state import store
from lbgen.runtime.local.messages import StartRequest  # noqa: TC001  # read at run time by saved
from lbgen.runtime.standins.plan import StandInSet  # noqa: TC001  # read at run time by saved

_FILE, _MARK = "saved", "changing"


class SavedNetwork(Struct, frozen=True):
    """As `network.Network`."""

    host: str
    inside: str
    device: str
    holder: ProcessId


class SavedStack(Struct, frozen=True):
    """What a stack serves: `stand_in_set` are the endpoints of the plan of `request`, `binaries` are the executables as
    they run (copies where their user cannot reach the original). `generation` counts the changes since its start."""

    generation: int
    request: StartRequest
    stand_in_set: StandInSet
    networks: tuple[tuple[str, SavedNetwork], ...]
    binaries: tuple[tuple[str, Binary], ...]


def write(folder: Path, value: SavedStack) -> None:
    """Commit `value` as what the stack serves. Raises EngineError LB408."""
    engines = tuple(replace(each, described=None) for each in value.request.engines)  # code of this process
    saved.write(folder / _FILE, replace(value, request=replace(value.request, engines=engines)))


def read(folder: Path) -> SavedStack | None:
    """The saved stack; None when there is none that this lbgen can read, or an engine of it is not installed."""
    found = saved.read(folder / _FILE, SavedStack)
    return found if found is not None and {x.name for x in found.request.engines} <= {*engine_names()} else None


def begin(folder: Path, generation: int) -> None:
    """Mark that a change of that generation is under way. Raises EngineError LB408."""
    store(folder / _MARK, str(generation).encode())


def end(folder: Path) -> None:
    """Remove the mark. Raises OSError."""
    (folder / _MARK).unlink(missing_ok=True)


def has_unfinished_change(folder: Path, generation: int) -> bool:
    """Whether a change of that generation was begun and neither committed nor rolled back."""
    with suppress(FileNotFoundError):
        return (folder / _MARK).read_text(encoding="ascii").strip() == str(generation)
    return False
