"""Rules and keys that use header fields with underscores where the listener drops such fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.route import Route


def check(context: Context) -> None:
    """LB286: a rule or a key uses a field which `headers_with_underscores: drop` removes."""
    model = context.model
    passing = {
        name
        for name, listener in model.listeners.items()
        if (listener.headers_with_underscores or model.headers_with_underscores) == "pass"
    }
    if len(passing) == len(model.listeners):
        return
    hashed = {
        name: pool.balance.hash.header
        for name, pool in model.pools.items()
        if pool.balance is not None and pool.balance.hash is not None and pool.balance.hash.header
    }
    for index, route in enumerate(model.routes):
        listeners = context.expanded.listeners[index]
        if context.expanded.is_l4(index) or not listeners or not passing.isdisjoint(listeners):
            continue
        for header, field in (*_asked(f"routes[{index}]", route), *_of_pools(hashed, route)):
            if "_" in header:
                message = f'listener "{listeners[0]}" drops the field {header}, because its name has an underscore'
                hint = f"write {header.replace('_', '-')}, or headers_with_underscores: pass on the listener"
                context.add("LB286", field, message, hint)


def _asked(field: str, route: Route) -> Iterator[tuple[str, str]]:
    for number, match in enumerate(route.match or ()):
        for name in match.headers or {}:
            yield name, f"{field}.match[{number}].headers.{name}"
    for key, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
        if limit is not None and limit.key is not None and limit.key.header is not None:
            yield limit.key.header, f"{field}.{key}.key"


def _of_pools(hashed: dict[str, str], route: Route) -> list[tuple[str, str]]:
    if not hashed:
        return []
    return [(hashed[to.pool], f"pools.{to.pool}.balance") for to in route.forward or () if to.pool in hashed]
