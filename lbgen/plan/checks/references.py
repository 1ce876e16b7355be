"""Unknown references and engines, names given twice, and objects that nothing refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lbgen.diagnostics import Severity
from lbgen.engine_words import find_authentication
from lbgen.installed import engine_names
from lbgen.plan.checks.context import Context, suggest_known
from lbgen.plan.feature_uses import default_uses, explicit_uses
from lbgen.plan.features import all_features
from lbgen.spec.pydantic_errors import suggest

_AUTH = "engines.verbatim.auth"


def check(context: Context) -> None:
    """LB201 unknown reference, LB202 one name twice, LB218 nothing, LB251 unused pool, LB303 unused accept."""
    model = context.model
    if not model.listeners:
        context.add("LB218", "listeners", "the topology has no listener", "write listeners: { web: { port: 8080 } }")
    if not model.routes:
        hint = "write routes: with a name, and forward, redirect or respond"
        context.add("LB218", "routes", "the topology has no route", hint)
    seen: dict[str, int] = {}
    for index, route in enumerate(model.routes):
        if (first := seen.setdefault(route.name, index)) != index:
            message = f'routes[{first}] has the name "{route.name}" too'
            context.add("LB202", f"routes[{index}].name", message, "rename one")
        for n, name in enumerate(route.listeners or ()):
            if name not in model.listeners:
                _unknown(context, f"routes[{index}].listeners[{n}]", "listener", name, model.listeners)
        for n, target in enumerate(route.forward or ()):
            if target.pool not in model.pools:
                _unknown(context, f"routes[{index}].forward[{n}].pool", "pool", target.pool, model.pools)
        for n, mirror in enumerate(route.mirror or ()):
            if mirror.pool not in model.pools:
                _unknown(context, f"routes[{index}].mirror[{n}].pool", "pool", mirror.pool, model.pools)
    used = context.expanded.used_pools
    for name in model.pools:
        if name not in used:
            context.advise("LB251", f"pools.{name}", "no route uses this pool", "drop it, or forward to it")
    asked = (explicit_uses, default_uses) if any(set(names) - {"all"} for names in model.accept.values()) else ()
    features = {feature for each in asked for feature, _ in each(context.expanded, context.topology.wrote)}
    accepted = ("all", *all_features())
    for engine, names in model.accept.items():
        for n, name in enumerate(names):
            field = f"accept.{engine}[{n}]"
            if name not in accepted:
                message = f'there is no feature "{name}"'
                hint = suggest_known(name, accepted) or "lbgen explain lists a topology's features; all accepts any"
                context.add("LB201", field, message, hint)
            elif name != "all" and name not in features:
                context.add("LB303", field, "nothing here uses this feature", "drop it", Severity.WARNING)


def _unknown(context: Context, field: str, kind: str, name: str, known: Iterable[str]) -> None:
    context.add("LB201", field, f'there is no {kind} "{name}"', suggest_known(name, known))


def check_engines(context: Context) -> None:
    """LB227 a name near that of an installed engine, LB236 text that authenticates on one engine alone, LB201
    certificates of a listener that is not there."""
    accepted = context.model.accept
    for name, block in context.model.engines.items():
        accepts = {_AUTH, "all"} & {*accepted.get(name, ()), *accepted.get("all", ())}
        for place, text in () if accepts else block.verbatim.items():
            if (word := find_authentication(text)) is not None:
                message = f"{word} authenticates clients on {name} alone: on any other engine every route would be open"
                hint = f"write auth: on routes or listeners, or accept: {{ {name}: [{_AUTH}] }}"
                context.add("LB236", f"engines.{name}.{place}", message, hint)
        for listener in block.certificate_arns or ():
            if listener not in context.model.listeners:
                field = f"engines.{name}.certificate_arns.{listener}"
                _unknown(context, field, "listener", listener, context.model.listeners)
    for name in unknown_engines(context):
        hint = suggest(name, engine_names())
        if hint.startswith("did you mean"):
            context.add("LB227", f"engines.{name}", f'there is no engine "{name}"', hint, key=True)


def unknown_engines(context: Context) -> Iterator[str]:
    """Names under `engines` that no installed engine has."""
    names = context.model.engines
    return (name for name in names if name not in engine_names()) if names else iter(())
