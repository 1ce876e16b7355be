"""Who may come in -> geo blocks about the client's address, the one behind trusted proxies included."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from lbgen.engines.nginx.view import Geo, Network
from lbgen.engines.text import Atom
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network, IPv6Network

    from lbgen.engines.nginx.names import Names
    from lbgen.plan.model import Listener, Plan
    from lbgen.plan.policy import Access

_CIDR = r"[0-9a-fA-F.:/]+"


class Gatekeeper:
    """Hands out variables that are 1 for clients who are kept out; equal questions share one."""

    def __init__(self, names: Names) -> None:
        self.geos: list[Geo] = []
        self._names = names
        self._known: dict[tuple[Access, tuple[str, ...]], Atom] = {}

    def denied(self, access: Access, listener: Listener, words: str) -> Atom:
        """The variable for `access` on that listener, whose trusted proxies are seen through."""
        key = (access, listener.trusted_proxies)
        if key not in self._known:
            name = Atom(f"${self._names.variable('denied', words)}")
            self._known[key] = name
            trusted = tuple(Atom.of(_CIDR, n) for n in listener.trusted_proxies)
            self.geos.append(Geo(Atom(words), name, entries(access), default(access), proxies=trusted))
        return self._known[key]


def seen_through(plan: Plan) -> frozenset[str]:
    """Listeners on which nginx must put the client's address in place of the peer's: something is counted by it."""
    counting = {
        route.name
        for route in plan.routes
        for counter in (route.rate_limit, route.concurrency)
        if counter is not None and counter.key.kind is KeyKind.CLIENT_IP
    }
    return frozenset(
        x.name
        for x in plan.listeners
        if x.trusted_proxies
        and not x.proxy_protocol
        and any(rule.route in counting for table in x.hosts for rule in table.rules)
    )


def default(access: Access) -> int:
    """1 when addresses of no network at all are kept out."""
    return int(access.allow is not None)


def entries(access: Access) -> tuple[Network, ...]:
    """nginx takes the narrowest network around an address, so each says what is true for all that is in it."""
    deny, allow = _networks(access.deny), _networks(access.allow or ())
    found = []
    for network in dict.fromkeys((*deny, *allow)):
        out = _within(network, deny) or (access.allow is not None and not _within(network, allow))
        found.append(Network(Atom.of(_CIDR, str(network)), int(out)))
    return tuple(found)


def _networks(texts: Iterable[str]) -> list[IPv4Network | IPv6Network]:
    return [ip_network(text) for text in texts]


def _within(network: IPv4Network | IPv6Network, others: list[IPv4Network | IPv6Network]) -> bool:
    return any(
        network.version == other.version and network.prefixlen >= other.prefixlen and network.network_address in other
        for other in others
    )
