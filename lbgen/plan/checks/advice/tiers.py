"""Tiers that hide the client's address or TLS from the tiers behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.checks.context import Context
    from lbgen.spec.listener import Listener


def check(context: Context) -> None:
    """LB281 hidden client addresses, LB282 TLS that ends in front, LB283 an L4 tier behind an L7 one."""
    model = context.model
    for name, pool in model.pools.items():
        if pool.tier is None:
            continue
        field, listener = f"pools.{name}", model.listeners[pool.listener or ""]
        users = context.users(name)
        if listener.mode == "l4":
            if any(user.mode == "l7" for user in users):
                message = f'tier "{pool.tier}" only forwards what an L7 tier has balanced already'
                context.advise("LB283", f"{field}.tier", message, "drop that tier, or put it in front")
            continue
        _addresses(context, field, users, listener, pool.listener or "")
        if listener.tls is None and any(user.terminates_tls and user.mode == "l4" for user in users):
            message = "TLS ends in front, so X-Forwarded-Proto and redirects say http"
            hint = f'pass it through (tls: {{ mode: passthrough }}) and terminate it on listener "{pool.listener}"'
            context.advise("LB282", field, message, hint)


def _addresses(context: Context, field: str, users: list[Listener], listener: Listener, name: str) -> None:
    """The peer of the inner tier is the tier in front, unless it accepts a PROXY header or trusts X-Forwarded-For."""
    if listener.proxy_protocol is not None:
        return
    message = (
        f'listener "{name}" sees the address of the tier in front for every client (X-Forwarded-For, access, limits)'
    )
    if any(user.mode == "l4" for user in users):
        hint = (
            f"write proxy_protocol: v2 here and proxy_protocol: accept on listeners.{name}; in front it needs a proxy, "
            "as what forwards in the kernel cannot add a PROXY header"
        )
        context.advise("LB281", field, message, hint)
    elif not listener.trusted_proxies:
        hint = f"name the tier in front in trusted_proxies of listeners.{name}, so that its X-Forwarded-For counts"
        context.advise("LB281", field, message, hint)
