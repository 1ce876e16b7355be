"""Another plan for an engine that runs -> what it could only take over by a new start, in a user's words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import target_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.api import Engine, ProcessSpec
    from lbgen.plan.model import Listener, Plan

REMEDY = "`lbgen up` replaces what runs; connections are cut then"


def refusal(message: str, hint: str = REMEDY) -> Diagnostic:
    """LB412."""
    return Diagnostic("LB412", message, hint=hint)


def other_version(target: Engine, before: Plan, after: Plan, runs: str) -> tuple[Diagnostic, ...]:
    """LB412 when the topology now asks for a version that is not the one that runs."""
    asked = after.options(target.name).version
    if asked == before.options(target.name).version or target_version(target, asked) == runs:
        return ()
    return (refusal(f"{target.title} {runs} runs, and the topology asks for {asked or 'the newest'} now"),)


def obstacles(
    title: str,
    before: tuple[Plan, ProcessSpec, Mapping[str, str]],
    after: tuple[Plan, ProcessSpec, Mapping[str, str]],
) -> tuple[Diagnostic, ...]:
    """LB412 for each reason why an engine that was started as `before` says cannot go on as `after`: the plan, how its
    process is started, and its files' texts."""
    (old_plan, old, old_texts), (new_plan, new, new_texts) = before, after
    found: list[Diagnostic] = []
    if new.successive:
        return ()
    if (new.argv, new.env) != (old.argv, old.env):
        found.append(refusal(f"{title} would have to be started with other arguments{_because(old_plan, new_plan)}"))
    for name in sorted({*old_texts, *new_texts}):
        fixed = any(name.startswith(each) if each.endswith("/") else name == each for each in new.fixed)
        if fixed and old_texts.get(name) != new_texts.get(name):
            why = _because(old_plan, new_plan)
            found.append(refusal(f"{title} reads {name} only when it starts, and this change alters it{why}"))
    return tuple(found)


def _because(before: Plan, after: Plan) -> str:
    """Which listeners are others, when that is what a start would be for."""
    old, new = ({x.name: _shape(x) for x in plan.listeners} for plan in (before, after))
    names = [name for name in (*new, *(x for x in old if x not in new)) if old.get(name) != new.get(name)]
    return f" (listener {', '.join(names)})" if names else ""


def _shape(listener: Listener) -> Listener:
    """The listener without its routes."""
    return replace(listener, hosts=(), l4_rules=())
