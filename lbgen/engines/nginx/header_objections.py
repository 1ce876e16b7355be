"""Objections to headers that nginx cannot read, or reads from the same variable as another one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan, Route
    from lbgen.plan.policy import Key

_READABLE = re.compile(r"[a-z0-9_-]+")
_SHOWS = {"headers_with_underscores.pass.rules": ("text: pool ", "text: to the endpoint: pool ")}


def is_readable(header: str) -> bool:
    """Whether nginx has a variable for the header."""
    return _READABLE.fullmatch(header) is not None


def key_objections(key: Key, field: str) -> Iterator[Objection]:
    """An objection to a key of limits or hashes that is an unreadable header."""
    if key.kind is KeyKind.HEADER and not is_readable(key.name):
        yield Objection(refused(f"nginx cannot read the header {key.name}"), field)


def underscore_objections(plan: Plan) -> Iterator[Objection]:
    """One per use of a header with a hyphen or underscore in its name, on listeners that accept underscores."""
    reported: set[tuple[str, str]] = set()
    for listener in plan.listeners:
        if not listener.underscores:
            continue
        for name, field in _used_headers(plan, listener):
            if ("-" in name or "_" in name) and (name, field) not in reported:
                reported.add((name, field))
                note = f"nginx reads {name} and its spellings with `_` for `-` or `-` for `_` from one variable"
                yield Objection(approximate(note, _SHOWS), field, Feature.UNDERSCORES_PASS)


def _used_headers(plan: Plan, listener: Listener) -> Iterator[tuple[str, str]]:
    """The request headers that affect routing, limits or edits, with the field that uses them."""
    if listener.trusted_proxies:
        yield "x-forwarded-for", f"{listener.field}.trusted_proxies"
    rules = {rule.rank: rule for table in listener.hosts for rule in table.rules}
    for rule in rules.values():
        for condition in rule.match.headers:
            yield condition.name, f"{rule.field}.headers.{condition.name}"
    for name in dict.fromkeys(rule.route for rule in rules.values()):
        yield from _used_by_route(plan, plan.route(name))


def _used_by_route(plan: Plan, route: Route) -> Iterator[tuple[str, str]]:
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
    for key, field in keys:
        if key.kind is KeyKind.HEADER:
            yield key.name, field
    for edit, field in edits:
        for name, _ in edit.add:
            yield name, field
