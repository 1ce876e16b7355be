"""Rules and keys on header fields that the listener drops: with underscores, or of clients that are no proxies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from lbgen.plan.conditions import Header, read_conditions
from lbgen.plan.forwarding import PROXY_FIELDS

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.route import Route


def check(context: Context) -> None:
    """LB286: a rule or a key uses a field that all listeners of its route remove."""
    model = context.model
    underscores = {
        name
        for name, listener in model.listeners.items()
        if (listener.headers_with_underscores or model.headers_with_underscores) == "pass"
    }
    trusting = {name for name, listener in model.listeners.items() if listener.trusted_proxies}
    if len(underscores & trusting) == len(model.listeners):
        return
    hashed = {
        name: pool.balance.hash.header
        for name, pool in model.pools.items()
        if pool.balance is not None and pool.balance.hash is not None and pool.balance.hash.header
    }
    said: set[str] = set()
    for index, route in enumerate(model.routes):
        listeners = context.expanded.listeners[index]
        if context.expanded.is_l4(index) or not listeners:
            continue
        for header, field in _asked(index, route, hashed):
            if field in said:
                continue
            if "_" in header and not underscores & set(listeners):
                message = f'listener "{listeners[0]}" drops the field {header}, because its name has an underscore'
                hint = f"write {header.replace('_', '-')}, or headers_with_underscores: pass on the listener"
                said.add(field)
                context.add("LB286", field, message, hint)
            elif header in PROXY_FIELDS and not trusting & set(listeners):
                message = f'listener "{listeners[0]}" drops the field {header} of clients, which anybody can set'
                hint = "write the proxies that set it, trusted_proxies: [10.0.0.0/8], on the listener"
                said.add(field)
                context.add("LB286", field, message, hint)


def _asked(index: int, route: Route, hashed: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The headers that rules and keys of a route look at; `hashed` are those of pools."""
    for number, match in enumerate(route.match or ()):
        for each in read_conditions(match):
            if isinstance(each.subject, Header):
                yield each.subject.name, f"routes[{index}].match[{number}].{each.field}"
    for key, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
        if limit is not None and limit.key is not None and limit.key.header is not None:
            yield limit.key.header, f"routes[{index}].{key}.key"
    for target in route.forward or () if hashed else ():
        if target.pool in hashed:
            yield hashed[target.pool], f"pools.{target.pool}.balance"
