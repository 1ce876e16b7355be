"""What only the lbgen that made a stack of containers knows of it: kept in the state directory, for the next change."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.runtime.docker import own
from lbgen.runtime.local.state import root

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.plan.model import Plan
    from lbgen.runtime.standins import Cast

_FILE = "kept"


@dataclass(frozen=True, slots=True)
class Kept:
    """The plan that the stack serves, the stand-ins that were ever started, what was accepted, whether it has stand-ins
    at all."""

    plan: Plan
    cast: Cast
    accept: tuple[str, ...]
    backends: bool

    def write(self) -> None:
        """Keep it, whole at any moment. Raises OSError."""
        place = folder(self.plan.name)
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        staged = place / f".{_FILE}.new"
        staged.write_bytes(pickle.dumps((own.tag(), self)))
        staged.replace(place / _FILE)


def folder(stack: str) -> Path:
    """The stack's in the state directory, which is ours alone."""
    return root() / "docker" / stack


def read(stack: str) -> Kept | None:
    """None where another user, or another lbgen, made the stack: it can be replaced then, and not be changed."""
    try:
        tag, found = pickle.loads((folder(stack) / _FILE).read_bytes())  # noqa: S301  # nobody else can write there
    except (OSError, pickle.PickleError, EOFError, AttributeError, ImportError, TypeError, ValueError, IndexError):
        return None
    return found if tag == own.tag() and isinstance(found, Kept) else None
