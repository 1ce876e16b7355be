"""Tiers that do not fit together: listeners without a tier, circles, replicas that nothing balances, and connections
whose two sides expect different things."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan import tier_links
from lbgen.plan.checks.context import Context, list_names, suggest_known

if TYPE_CHECKING:
    from lbgen.spec.listener import Listener
    from lbgen.spec.pool import Pool


def check(context: Context) -> None:
    """LB201 unknown tier or listener, LB221 tiers and listeners that do not fit, LB222 circles, LB223 a route in two
    tiers, LB224 both sides of a connection, LB225 replicas."""
    _names(context)
    if context.model.tiers is None:
        return
    _listeners(context)
    edges = tier_links.tier_edges(context.model, context.expanded)
    _circles(context, edges)
    _replicas(context, {to for _, to in edges})
    for name, pool in context.model.pools.items():
        listener = context.model.listeners.get(pool.listener or "")
        if pool.tier is not None and listener is not None and listener.tier == pool.tier:
            _pair(context, name, pool, listener)


def _names(context: Context) -> None:
    model = context.model
    known = tuple(model.tiers or ())
    for name, listener in model.listeners.items():
        if listener.tier is not None and listener.tier not in known:
            _unknown(context, f"listeners.{name}.tier", listener.tier, known)
    for name, pool in model.pools.items():
        if pool.tier is None:
            continue
        if pool.tier not in known:
            _unknown(context, f"pools.{name}.tier", pool.tier, known)
            continue
        there = [each for each, listener in model.listeners.items() if listener.tier == pool.tier]
        if pool.listener is None and len(there) > 1:
            message = f'tier "{pool.tier}" has the listeners {list_names(there)}'
            context.add("LB221", f"pools.{name}", message, f"say which: listener: {there[0]}")
        elif pool.listener is not None and pool.listener not in there:
            message = f'tier "{pool.tier}" has no listener "{pool.listener}"'
            context.add("LB201", f"pools.{name}.listener", message, suggest_known(pool.listener, there))


def _unknown(context: Context, field: str, name: str, known: tuple[str, ...]) -> None:
    hint = suggest_known(name, known) if known else f"write tiers: {{ {name}: {{}} }}"
    context.add("LB201", field, f'there is no tier "{name}"', hint)


def _listeners(context: Context) -> None:
    model, known = context.model, tuple(context.model.tiers or ())
    for tier in known:
        if not any(listener.tier == tier for listener in model.listeners.values()):
            message = "this tier has no listener"
            context.add("LB221", f"tiers.{tier}", message, f"write tier: {tier} on a listener", key=True)
    for name, listener in model.listeners.items():
        if listener.tier is None:
            message = "each listener of a tiered topology belongs to a tier"
            context.add("LB221", f"listeners.{name}", message, f"write tier: {' or '.join(known)}", key=True)
    for index, route in enumerate(model.routes):
        on = dict.fromkeys(model.listeners[name].tier for name in context.expanded.listeners[index])
        if len(on) > 1:
            message = f"is attached to listeners of the tiers {list_names(tier or '(none)' for tier in on)}"
            field = f"routes[{index}]" if route.listeners is None else f"routes[{index}].listeners"
            hint = "name the listeners of one tier" if route.listeners is None else "write a route for each tier"
            context.add("LB223", field, message, hint)


def _circles(context: Context, edges: tuple[tuple[str, str], ...]) -> None:
    names = tuple(context.model.tiers or ())
    stuck = set(names) - set(tier_links.front_to_back(names, edges))
    for name, pool in context.model.pools.items():
        if pool.tier in stuck and any(to == pool.tier and one in stuck for one, to in edges):
            message = f"traffic would go in circles through {list_names(each for each in names if each in stuck)}"
            context.add("LB222", f"pools.{name}.tier", message, "lead to an inner tier")
            return


def _replicas(context: Context, behind: set[str]) -> None:
    model = context.model
    led = {(pool.tier, pool.listener) for pool in model.pools.values() if pool.tier is not None}
    of = {each: listener.tier for each, listener in model.listeners.items()}
    unclear = {tier for tier, listener in led if of.get(listener or "") != tier}  # reported already
    for name, tier in (model.tiers or {}).items():
        field = f"tiers.{name}"
        if tier.hosts is not None and tier.count != len(tier.hosts):
            message = f"{tier.count} replicas and {len(tier.hosts)} hosts"
            context.add(
                "LB225", f"{field}.replicas", message, "write as many hosts as replicas, or drop one of the two"
            )
        if name not in behind and tier.count > 1:
            message = "no pool leads to this tier, so nothing would balance its replicas"
            context.add(
                "LB225", f"{field}.replicas", message, f"put a tier in front of it: pools: {{ x: {{ tier: {name} }} }}"
            )
        for each, listener in model.listeners.items():
            if name in behind - unclear and listener.tier == name and (name, each) not in led:
                message = f'no pool leads to this listener, while others lead to tier "{name}"'
                context.add("LB221", f"listeners.{each}", message, "give it a tier of its own, or a pool", key=True)


def _pair(context: Context, name: str, pool: Pool, listener: Listener) -> None:
    """LB224: what the pool speaks and what the listener that it leads to expects."""
    field, users, there = f"pools.{name}", context.users(name), f'listener "{pool.listener}"'
    if pool.proxy_protocol is not None and listener.proxy_protocol is None:
        message = f"{there} does not expect a PROXY header and would reject it as a malformed request"
        hint = f"write proxy_protocol: accept on listeners.{pool.listener}"
        context.add("LB224", f"{field}.proxy_protocol", message, hint)
    if listener.proxy_protocol is not None and pool.proxy_protocol is None:
        message = f"{there} requires a PROXY header"
        context.add("LB224", field, message, "add proxy_protocol: v2")
    if listener.ports is not None:
        message = f"{there} has a range of ports, and a pool leads to one port"
        context.add("LB224", field, message, f"write port on listeners.{pool.listener}")
    if any((user.protocol == "udp") != (listener.protocol == "udp") for user in users):
        message = f"the protocols differ: {there} is {listener.protocol or 'tcp'}"
        context.add("LB224", field, message, "lead to a listener of the same protocol")
    if pool.health is not None and pool.health.active is not None and pool.health.active.port is not None:
        message = "replicas of a tier are checked on the port where they serve"
        context.add("LB224", f"{field}.health.active.port", message, "drop it")
    ends = listener.terminates_tls
    clear = all(user.mode == "l7" or user.terminates_tls for user in users)
    if ends and users and clear and pool.tls is None:
        context.add("LB224", field, f"{there} speaks TLS, and this pool does not", "add tls: {}")
    if pool.tls is not None and listener.tls is None:
        context.add("LB224", f"{field}.tls", f"{there} does not speak TLS", f"drop it, or add tls on {there}")
    http2 = listener.http2 if listener.http2 is not None else listener.tls is not None
    if pool.protocol in ("http2", "grpc") and listener.mode == "l7" and not http2:
        context.add("LB224", f"{field}.protocol", f"{there} speaks HTTP/1.1 only", "write http2: true there")
