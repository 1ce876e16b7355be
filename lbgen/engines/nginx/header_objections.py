"""Where an underscore in the name of a field that is let in counts as a hyphen: nginx has one variable for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan, Route
    from lbgen.plan.policy import Key

_SHOWS = {"headers_with_underscores.pass.rules": ("text: pool ", "text: to the endpoint: pool ")}


def objections(plan: Plan) -> Iterator[Objection]:
    """One for each place that asks for a field with either in its name, on listeners that let both in."""
    told: set[tuple[str, str]] = set()
    for listener in plan.listeners:
        if not listener.underscores:
            continue
        for name, place in _asked(plan, listener):
            if ("-" in name or "_" in name) and (name, place) not in told:
                told.add((name, place))
                note = f"nginx has one variable for {name} and the field with `_` for `-`, or `-` for `_`: both count"
                yield Objection(approximate(note, _SHOWS), place, Feature.UNDERSCORES_PASS)


def _asked(plan: Plan, listener: Listener) -> Iterator[tuple[str, str]]:
    """Names of request fields that decide something, with the place that asks for them."""
    if listener.trusted_proxies:
        yield "x-forwarded-for", f"{listener.field}.trusted_proxies"
    rules = {rule.rank: rule for table in listener.hosts for rule in table.rules}
    for rule in rules.values():
        for wanted in rule.match.headers:
            yield wanted.name, f"{rule.field}.headers.{wanted.name}"
    for name in dict.fromkeys(rule.route for rule in rules.values()):
        yield from _of_route(plan, plan.route(name))


def _of_route(plan: Plan, route: Route) -> Iterator[tuple[str, str]]:
    if route.cors is not None:
        yield "access-control-request-method", f"{route.field}.cors"
    keys: list[tuple[Key, str]] = []
    if route.rate_limit is not None:
        keys.append((route.rate_limit.key, f"{route.field}.rate_limit.key"))
    if route.concurrency is not None:
        keys.append((route.concurrency.key, f"{route.field}.concurrency.key"))
    edits = [(route.request_headers, f"{route.field}.request_headers.add")]
    if isinstance(route.action, Forward):
        for index, target in enumerate(route.action.targets):
            edits.append((target.request_headers, f"{route.field}.forward[{index}].request_headers.add"))
            pool = plan.pool(target.pool)
            if pool.hash_key is not None:
                keys.append((pool.hash_key, f"{pool.field}.balance"))
    for key, place in keys:
        if key.kind is KeyKind.HEADER:
            yield key.name, place
    for edit, place in edits:
        for name, _ in edit.add:
            yield name, place
