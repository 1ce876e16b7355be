"""`forwarding: direct`: the balancer sends each packet on unchanged, in a frame for the endpoint, which has the
listener's address too and answers the client itself."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.keepalived.names import is_every_address
from lbgen.engines.keepalived.upstreams import pools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Endpoint, Listener, Plan

FOLDER = "direct"


def is_direct(plan: Plan) -> bool:
    """Whether the topology asks for direct forwarding."""
    return plan.options("keepalived").forwarding == "direct"


def _pairs(plan: Plan) -> Iterator[tuple[Listener, Endpoint]]:
    for listener in plan.listeners:
        for rule in listener.l4_rules:
            for pool in pools(plan, plan.route(rule.route)):
                yield from ((listener, endpoint) for endpoint in pool.endpoints)


def addresses(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The listeners' addresses that each host of endpoints has, by the host's own address, sorted."""
    found: dict[str, dict[str, None]] = {}
    for listener, endpoint in _pairs(plan):
        host = str(ip_address(endpoint.host))
        found.setdefault(host, {})[str(ip_address(listener.address))] = None
    return {host: tuple(sorted(found[host])) for host in sorted(found)}


def objections(plan: Plan) -> Iterator[Objection]:
    """An interface, listeners of all addresses, and endpoints on another port than the listener's."""
    if plan.options("keepalived").device is not None:
        why = "IPVS sends packets out by the routes to the endpoints, not by a given interface: drop it"
        yield Objection(refused(why), "engines.keepalived.device")
    if not is_direct(plan):
        return
    for listener in plan.listeners:
        if is_every_address(listener.address):
            why = "endpoints answer from the listener's address, so direct forwarding needs a listener that names one"
            yield Objection(refused(why), listener.field)
    for listener, endpoint in _pairs(plan):
        if endpoint.port != listener.port:
            why = f"direct routing leaves a packet as it is, so the endpoint needs the listener's port {listener.port}"
            yield Objection(refused(why), endpoint.field)
