"""Plan and engine -> the clauses that `guarantees` leave to the engine, each with the engine's own habit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec import Struct

from lbgen.json_types import Record
from lbgen.plan.guarantees import Guarantee

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan


@runtime_checkable
class Habitual(Protocol):
    """An engine that says what it does where a clause is left to it; beside `lbgen.engines.api.Engine`."""

    def habits(self, version: str) -> Mapping[Guarantee, str]:
        """One sentence for each guarantee, in a user's words."""
        ...


class LeftToEngineRecord(Record):
    """A guarantee that is left to the engine."""

    guarantee: Guarantee
    habit: str
    """What the engine does then, in a sentence."""
    listeners: list[str]


class LeftToEngine(Struct, frozen=True):
    """A clause that is left to the engine on these listeners, and what the engine does then."""

    guarantee: Guarantee
    habit: str
    listeners: tuple[str, ...]

    def as_dict(self) -> LeftToEngineRecord:
        """The JSON record: guarantee, habit, listeners."""
        return {"guarantee": self.guarantee, "habit": self.habit, "listeners": list(self.listeners)}


def left_to_engine(plan: Plan, engine: Engine, version: str) -> tuple[LeftToEngine, ...]:
    """What the plan's listeners leave to `engine`, in the order of the guarantees."""
    habits = engine.habits(version) if isinstance(engine, Habitual) else {}
    found = []
    for guarantee in Guarantee:
        listeners = tuple(each.name for each in plan.listeners if guarantee in each.guarantees.left)
        if listeners:
            habit = habits.get(guarantee, f"{engine.title} does not say what it does then")
            found.append(LeftToEngine(guarantee, habit, listeners))
    return tuple(found)
