"""What engines that have the kernel forward packets share: verdicts, objections, and what their routes forward to."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address

from lbgen.engines.api import NATIVE, UNPORTABLE, Objection, Verdict, approximate, emulated, refused
from lbgen.plan.features import Feature
from lbgen.plan.model import Balance, Forward, Plan, Route


def kernel_verdicts(engine: str) -> dict[Feature, Verdict]:
    """The verdicts that hold for each of them; `engine` begins the reasons."""
    http = refused(f"{engine} works at L4 and does not parse HTTP")
    tls = refused(f"{engine} works at L4 and does not parse TLS")
    added = refused(f"{engine} forwards packets and cannot add bytes to a connection")
    return {
        "": http,  # all that neither this nor an engine names is of HTTP
        "listener.l4.tcp": NATIVE,
        "listener.l4.udp": emulated("a flow is a client's address and port, until it is silent for `timeouts.idle`"),
        "listener.tls": tls,
        "listener.proxy_protocol": added,
        "route.priority": NATIVE,
        "match.sni": tls,
        "route.forward": NATIVE,
        "route.forward.request_headers": http,
        "timeouts.connect": approximate(
            "the kernel forwards the client's own handshake, so the client's connect timeout applies, not this one",
            {"timeouts.connect.l4": "open"},
        ),
        "timeouts.idle": approximate(
            "the kernel drops the state of an idle connection without closing it: the next packet of either side is "
            "reset",
            {"timeouts.idle.l4": "time"},
        ),
        "pool.balance.round_robin": NATIVE,
        "pool.balance.source_hash": NATIVE,
        "pool.weights": NATIVE,
        "pool.endpoint_ipv6": NATIVE,
        "pool.connections.queue": refused("the kernel forwards or rejects a connection at once and cannot queue it"),
        "pool.tls": tls,
        "pool.proxy_protocol": added,
        "engines.verbatim": UNPORTABLE,
    }


def unreachable_endpoints(plan: Plan, route: Route, address: str, kernel: str) -> Iterator[Objection]:
    """Endpoints of another family than the listener's `address`, and those on loopback."""
    for endpoint in (x for target in forward_of(route).targets for x in plan.pool(target.pool).endpoints):
        if not endpoint.is_ip:
            continue  # refused by its feature
        if family(endpoint.host) != family(address):
            why = f"{kernel} cannot forward connections from {address} to {endpoint.host}"
            yield Objection(refused(why), endpoint.field)
        elif ip_address(endpoint.host).is_loopback:
            why = "the kernel does not forward to a loopback address; use an address of another interface"
            yield Objection(refused(why), endpoint.field)


def family(address: str) -> str:
    """The family of `address` in the kernel's words."""
    return "ip6" if ":" in address else "ip"


def forward_of(route: Route) -> Forward:
    """The action of an L4 route."""
    if not isinstance(route.action, Forward):
        raise TypeError(f"L4 route {route.name} does not forward")
    return route.action


def balance(plan: Plan, route: Route) -> Balance | None:
    """The balance of the route's pools; None when they differ."""
    found = {plan.pool(t.pool).balance for t in forward_of(route).targets if t.weight}
    return found.pop() if len(found) == 1 else None
