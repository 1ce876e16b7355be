"""What only the lbgen that made a stack of containers knows of it: kept in the state directory, for the next change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.runtime.common import saved
from lbgen.runtime.common.health import members
from lbgen.runtime.common.state import root

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.plan.model import Plan
    from lbgen.runtime.common.health import Member
    from lbgen.runtime.standins.plan import Cast

_FILE = "kept"


@dataclass(frozen=True, slots=True)
class Kept:
    """The plan that the stack serves, the stand-ins that were ever started, what was accepted, whether it has stand-ins
    at all."""

    plan: Plan
    cast: Cast
    accept: tuple[str, ...]
    backends: bool

    def members(self) -> tuple[Member, ...]:
        """The endpoints under their names, at the addresses that the engines have."""
        host = self.cast.stand_ins[0].host if self.cast.stand_ins else ""
        return members(self.plan, self.cast.play(self.plan, host))

    def write(self) -> None:
        """Keep it, whole at any moment. Raises EngineError LB408."""
        saved.write(folder(self.plan.name) / _FILE, self)


def folder(stack: str) -> Path:
    """The stack's in the state directory, which is ours alone."""
    return root() / "docker" / stack


def read(stack: str) -> Kept | None:
    """None where another user, or another lbgen, made the stack: it can be replaced then, and not be changed."""
    found = saved.read(folder(stack) / _FILE)
    return found if isinstance(found, Kept) else None
