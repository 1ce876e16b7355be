"""`forwarding: direct`: the balancer rewrites the destination of each packet, each endpoint the source of its replies,
which bypass the balancer. Without connection tracking; a map of flows keeps an open connection with its endpoint.

The form of L3 rewrites the IP address. That of L2, for endpoints in the segment of a `device`, hands the packet on to
the endpoint's MAC address as it arrives, before this host's IP stack; the endpoint rewrites the IP address then.
"""

from __future__ import annotations

from hashlib import sha256
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused, version_key
from lbgen.engines.nftables.names import table_name
from lbgen.engines.nftables.upstreams import forward_of
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Endpoint, Listener, Plan, Route

_ANY = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound
_UNTRACKED = "direct forwarding does not track connections, so the kernel cannot count them"
_FRAGMENTS = approximate(
    "datagrams that do not fit into one packet are lost: the ingress hook sees fragments before the kernel puts them "
    "together, and only the first one has a port; without `device` they are forwarded"
)
FOLDER = "direct"


def is_direct(plan: Plan) -> bool:
    """Whether the topology asks for direct forwarding."""
    return plan.options("nftables").forwarding == "direct"


def device(plan: Plan) -> str | None:
    """The interface to the segment of all endpoints; None for the form of L3."""
    return plan.options("nftables").device if is_direct(plan) else None


def table_family(plan: Plan, word: str) -> str:
    """The family of the balancer's tables for packets of the family `word`."""
    return "netdev" if device(plan) else word


def tables(plan: Plan) -> str:
    """The name of its tables. Those of NAT have another one, as a change between the two replaces all chains."""
    return f"{table_name(plan)}_direct"


def endpoints(plan: Plan, route: Route) -> tuple[Endpoint, ...]:
    """All endpoints of a route, each address and port once, in the order of the targets."""
    every = (x for target in forward_of(route).targets for x in plan.pool(target.pool).endpoints)
    return tuple({(x.host, x.port): x for x in every}.values())


def numbers(plan: Plan, route: Route) -> dict[str, int]:
    """A number from 1 to 65535 by endpoint (`host:port`), which does not depend on the other endpoints unless their
    hashes are equal: so a reload that removes one moves no flow of another."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(x.authority for x in endpoints(plan, route)):
        number = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % 65_535
        while number + 1 in taken:
            number = (number + 1) % 65_535
        found[name] = number + 1
        taken.add(number + 1)
    return found


def replies(plan: Plan) -> dict[str, list[tuple[Listener, Endpoint]]]:
    """The listeners and endpoints by host of the endpoints, sorted."""
    found: dict[str, dict[tuple[Protocol, int], tuple[Listener, Endpoint]]] = {}
    for listener in plan.listeners:
        for rule in listener.l4_rules:
            for end in endpoints(plan, plan.route(rule.route)):
                host = str(ip_address(end.host))
                found.setdefault(host, {}).setdefault((listener.protocol, end.port), (listener, end))
    return {host: list(found[host].values()) for host in sorted(found)}


def objections(plan: Plan, version: str) -> Iterator[Objection]:
    """Listeners of all addresses, endpoints of two listeners, IPv6 on nft 1.0, fragments by MAC addresses, and what
    needs connection tracking."""
    if not is_direct(plan):
        if plan.options("nftables").device is not None:
            why = "it is the interface of direct forwarding: add `forwarding: direct`, or drop it"
            yield Objection(refused(why), "engines.nftables.device")
        return
    owners: dict[tuple[str, int, Protocol], str] = {}
    for listener in plan.listeners:
        if listener.address in _ANY:
            why = "endpoints answer from the listener's address, so direct forwarding needs a listener that names one"
            yield Objection(refused(why), listener.field)
        if ":" in listener.address and version_key(version) < (1, 1):
            # Its `update @map` overwrites the last four bytes of an IPv6 address in the key, or nft aborts.
            why = "nft 1.0 cannot keep IPv6 flows in a map, nft 1.1 can; use NAT for IPv6"
            yield Objection(refused(why), listener.field)
        if listener.protocol is Protocol.UDP and device(plan) is not None:
            yield Objection(_FRAGMENTS, listener.field, Feature.L4_UDP)
        if listener.max_connections is not None:
            yield Objection(refused(_UNTRACKED), f"{listener.field}.max_connections", Feature.L4_MAX_CONNECTIONS)
        for end in (x for rule in listener.l4_rules for x in endpoints(plan, plan.route(rule.route))):
            key = end.host, end.port, listener.protocol
            if owners.setdefault(key, listener.name) != listener.name:
                why = f"it answers from the address of one listener, and listener {owners[key]} uses it as well"
                yield Objection(refused(why), end.field)
    routes = dict.fromkeys(rule.route for x in plan.listeners for rule in x.l4_rules)
    for name in dict.fromkeys(t.pool for route in routes for t in forward_of(plan.route(route)).targets):
        pool = plan.pool(name)
        if pool.balance is Balance.LEAST_CONNECTIONS:
            yield Objection(refused(_UNTRACKED), f"{pool.field}.balance", Feature.LEAST_CONNECTIONS)
        if pool.max_per_endpoint is not None:
            yield Objection(refused(_UNTRACKED), pool.field, Feature.MAX_PER_ENDPOINT)
