"""L4 listeners: Traefik's routers of the exact mode, without those that close what nothing is left of."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lbgen.engines.traefik import names, tcp_weights
from lbgen.plan.model import Mode, Protocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan


def drop_needless_routers(plan: Plan, tcp: dict[str, Data]) -> None:
    """Remove the closing routers of listeners whose last rule takes every connection, TLS or not. Without routers for
    TLS Traefik need not wait for the first bytes of a client."""
    routers, services = cast("dict[str, Data]", tcp["routers"]), cast("dict[str, Data]", tcp["services"])
    for listener in plan.listeners:
        if listener.mode is Mode.L4 and listener.protocol is Protocol.TCP and _takes_all(plan, listener):
            name = names.edge(listener)
            del routers[f"{name}-other-tls"], routers[f"{name}-other"], services[f"{name}-closed"]


def _takes_all(plan: Plan, listener: Listener) -> bool:
    """Whether it has no TLS and a single rule, for everybody, whose weights are in this file."""
    if listener.tls is not None or listener.access is not None or len(listener.l4_rules) != 1:
        return False
    (rule,) = listener.l4_rules
    route = plan.route(rule.route)
    steered = tcp_weights.has_agent_weights(plan, route)  # to the service that closes, if no endpoint is up
    return rule.sni is None and not rule.sources and route.access is None and not steered
