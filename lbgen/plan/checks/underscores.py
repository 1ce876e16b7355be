"""Rules and keys that use header fields with underscores where the listener drops such fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
        for header, field in _asked(index, route, hashed):
            listeners = context.expanded.listeners[index]
            if "_" not in header or context.expanded.is_l4(index) or not listeners or passing & set(listeners):
                continue
            message = f'listener "{listeners[0]}" drops the field {header}, because its name has an underscore'
            hint = f"write {header.replace('_', '-')}, or headers_with_underscores: pass on the listener"
            context.add("LB286", field, message, hint)


def _asked(index: int, route: Route, hashed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The headers that rules and keys of a route look at; `hashed` are those of pools."""
    for number, match in enumerate(route.match or ()):
        for name in match.headers or ():
            yield name, f"routes[{index}].match[{number}].headers.{name}"
    for key, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
        if limit is not None and limit.key is not None and limit.key.header is not None:
            yield limit.key.header, f"routes[{index}].{key}.key"
    for target in route.forward or () if hashed else ():
        if target.pool in hashed:
            yield hashed[target.pool], f"pools.{target.pool}.balance"
