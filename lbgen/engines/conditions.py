"""What an engine's table of conditions has for each path, and for each operator on each subject."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from msgspec import Struct

from lbgen.engines.api import Verdict, refused
from lbgen.plan.conditions import FEATURES, Condition, Kind, Not
from lbgen.plan.features import Feature
from lbgen.plan.model import Match

_MISSING = refused("lbgen has no text for this condition in its configuration")


class Rendered(Struct, frozen=True):
    """How an engine has a condition: the function that renders it, whose arguments are the engine's own, and the
    verdict on its feature."""

    render: Callable[..., Any]
    verdict: Verdict
    refuses: Callable[[Condition], str | None] | None = None
    """Why the engine cannot have this one; None where it can."""


ConditionTable = Mapping[Kind, Rendered]


def condition_verdicts(table: ConditionTable) -> dict[Feature, Verdict]:
    """The verdict on every condition; one that is not in the table is refused, and with it the negated ones of its
    subject, which render what they negate."""
    missing = {kind for kind in FEATURES if kind not in table}
    missing |= {(kind[0], Not) for kind in missing if isinstance(kind, tuple)}
    return {name: _MISSING if kind in missing else table[kind].verdict for kind, name in FEATURES.items()}


def refusal(table: ConditionTable, condition: Condition) -> str | None:
    """Why the engine cannot have the condition, though it has others of the kind; None where it can."""
    refuses = table[condition.kind].refuses if condition.kind in table else None
    return refuses(condition) if refuses is not None else None


def refuse_names(names: Container[str], why: str) -> Callable[[Condition], str | None]:
    """Refuse conditions on a subject of one of these names."""
    return lambda condition: why if condition.subject.name in names else None


def has_all(table: ConditionTable, match: Match) -> bool:
    """Whether the table has every condition of a match; others are refused before anything is rendered."""
    kinds = {each.kind for each in match.conditions}
    kinds |= {(type(x.subject), type(x.operator.operator)) for x in match.conditions if isinstance(x.operator, Not)}
    return type(match.path) in table and all(kind in table for kind in kinds)
