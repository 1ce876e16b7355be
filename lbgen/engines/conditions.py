"""What an engine's table of conditions has for each path, and for each operator on each subject."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lbgen.engines.api import Verdict, refused
from lbgen.plan.conditions import FEATURES, Condition, Kind
from lbgen.plan.features import Feature

if TYPE_CHECKING:
    from lbgen.plan.model import Match

_MISSING = refused("lbgen has no text for this condition in its configuration")


class Rendered(Struct, frozen=True):
    """How an engine has a condition: the function that renders it, whose arguments are the engine's own, and the
    verdict on its feature."""

    render: Callable[..., Any]
    verdict: Verdict
    refused_names: Mapping[str, str] = {}
    """Names of the subject with which the engine cannot have it, each with the reason."""


ConditionTable = Mapping[Kind, Rendered]


def condition_verdicts(table: ConditionTable) -> dict[Feature, Verdict]:
    """The verdict on every condition; one that is not in the table is refused."""
    return {Feature(name): table[kind].verdict if kind in table else _MISSING for kind, name in FEATURES.items()}


def refused_name(table: ConditionTable, condition: Condition) -> str | None:
    """Why the engine cannot have the condition with this name of its subject; None where it can."""
    return table[condition.kind].refused_names.get(condition.subject.name) if condition.kind in table else None


def has_all(table: ConditionTable, match: Match) -> bool:
    """Whether the table has every condition of a match; others are refused before anything is rendered."""
    return type(match.path) in table and all(each.kind in table for each in match.conditions)
