"""Named policies: unknown names, listeners that disagree, and policies and defaults that nothing uses."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.plan.checks.context import Context, suggest_known
from lbgen.plan.inheritance import Inheritance


def check(context: Context) -> None:
    """LB201 unknown policy, LB235 a route on listeners of different policies, LB251 a policy that nothing uses."""
    model, used = context.model, set[str]()
    for field, name in _named(context):
        used.add(name)
        if name not in model.policies:
            context.add("LB201", field, f'there is no policy "{name}"', suggest_known(name, model.policies))
    for name in model.policies:
        if name not in used and context.topology.wrote(f"policies.{name}"):
            hint = f"drop it, or write policies: [{name}] on a route or listener"
            context.advise("LB251", f"policies.{name}", "no route or listener uses this policy", hint, key=True)
    inheritance = Inheritance(context.expanded)
    for index, names in enumerate(context.expanded.listeners):
        if len(names) > 1:
            _conflict(context, inheritance, index)


def _named(context: Context) -> Iterator[tuple[str, str]]:
    """The places that name a policy, and the name."""
    for name, listener in context.model.listeners.items():
        yield from ((f"listeners.{name}.policies[{n}]", each) for n, each in enumerate(listener.policies or ()))
    for index, route in enumerate(context.model.routes):
        yield from ((f"routes[{index}].policies[{n}]", each) for n, each in enumerate(route.policies or ()))


def _conflict(context: Context, inheritance: Inheritance, index: int) -> None:
    found = inheritance.find_conflict(index)
    if found is None:
        return
    one, other, key = found
    message = f'listeners "{one}" and "{other}" differ in the {key} that they give it'
    hint = f"write a route for each, with listeners: [{one}] and listeners: [{other}], or {key} on the route itself"
    context.add("LB235", f"routes[{index}]", message, hint)


def check_defaults(context: Context) -> None:
    """LB288, for defaults in the user's own file that no route or pool inherits."""
    defaults = context.model.defaults
    if defaults is None:
        return
    inherited = set(context.topology.marks.origins.values())
    for what, part in (("route", defaults.route), ("pool", defaults.pool)):
        for key in part.model_fields_set if part is not None else ():
            field = f"defaults.{what}.{key}"
            taken = any(each == field or each.startswith((f"{field}.", f"{field}[")) for each in inherited)
            if not taken and context.topology.wrote(field):
                context.advise("LB288", field, f"has no effect: no {what} takes it", "drop it", key=True)
