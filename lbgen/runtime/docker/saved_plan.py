"""The plan and the stand-ins of a stack of containers, saved in the state directory for the next change."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from lbgen.plan.model import Plan  # noqa: TC001  # read at run time by saved
from lbgen.runtime.common import saved
from lbgen.runtime.common.health import Member, members
from lbgen.runtime.common.state import root
from lbgen.runtime.standins.plan import StandInSet  # noqa: TC001  # read at run time by saved

_FILE = "kept"


class SavedPlan(Struct, frozen=True):
    """`plan`: what the stack serves; `stand_in_set`: the stand-ins that were ever started; `accept`: the accepted
    verdicts; `backends`: whether stand-ins serve as endpoints."""

    plan: Plan
    stand_in_set: StandInSet
    accept: tuple[str, ...]
    backends: bool

    def members(self) -> tuple[Member, ...]:
        """The endpoints under their names, at the addresses that the engines have."""
        host = self.stand_in_set.stand_ins[0].host if self.stand_in_set.stand_ins else ""
        return members(self.plan, self.stand_in_set.apply_to(self.plan, host))

    def write(self) -> None:
        """Save it atomically. Raises EngineError LB408."""
        saved.write(folder(self.plan.name) / _FILE, self)


def folder(stack: str) -> Path:
    """The folder of a stack in the state directory."""
    return root() / "docker" / stack


def read(stack: str) -> SavedPlan | None:
    """None where another user or another lbgen made the stack, which can be replaced then, not changed."""
    return saved.read(folder(stack) / _FILE, SavedPlan)
