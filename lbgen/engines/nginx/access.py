"""Access by address: geo blocks with the verdict for each network, and nginx's own lists at L4."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network

from lbgen.engines.nginx.definitions import Definitions, Section
from lbgen.engines.nginx.names import network, reference, unmapped
from lbgen.engines.nginx.request_values import searched_proxies
from lbgen.engines.nginx.statements import Check, Geo, Network
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Checks, Contributor, HttpRoute, HttpServer, L4Server, Lines
from lbgen.engines.text import Atom
from lbgen.plan.model import Listener
from lbgen.plan.policy import Access


def denied_variable(definitions: Definitions, access: Access, listener: Listener, field: str) -> Atom:
    """The variable that is 1 for clients, behind the listener's trusted proxies, whom `access` denies; equal policies
    share one."""
    name, is_new = definitions.named("denied", field, access, searched_proxies(listener))
    if is_new:
        trusted = tuple(network(n) for n in searched_proxies(listener))
        geo = Geo(Atom(field), reference(name), geo_networks(access), geo_default(access), proxies=trusted)
        definitions.add(Section.ACCESS, geo)
    return reference(name)


def geo_default(access: Access) -> int:
    """1 when addresses outside all listed networks are denied."""
    return int(access.allow is not None)


def geo_networks(access: Access) -> tuple[Network, ...]:
    """The listed networks with 1 for denied; nginx uses the narrowest one around an address."""
    deny, allow = _networks(access.deny), _networks(access.allow or ())
    entries = []
    for each in dict.fromkeys((*deny, *allow)):
        denied = _within(each, deny) or (access.allow is not None and not _within(each, allow))
        entries.append(Network(network(str(each)), int(denied)))
    return tuple(entries)


def _networks(texts: Iterable[str]) -> list[IPv4Network | IPv6Network]:
    return [unmapped(text) for text in texts]


def _within(inner: IPv4Network | IPv6Network, others: list[IPv4Network | IPv6Network]) -> bool:
    return any(
        inner.version == other.version and inner.prefixlen >= other.prefixlen and inner.network_address in other
        for other in others
    )


def _checks(at: HttpServer) -> Checks:
    if (access := at.listener.access) is not None:
        yield Check(denied_variable(at.on.definitions, access, at.listener, f"{at.listener.field}.access"), 403)


def _guard(at: HttpRoute, _: bool) -> Checks:
    if (access := at.route.access) is not None:
        yield Check(denied_variable(at.on.definitions, access, at.listener, f"{at.route.field}.access"), 403)


def _stream(at: L4Server) -> Lines:
    """The first matching line applies."""
    access = at.listener.access
    if access is None:
        return
    for each in access.deny:
        yield directive("deny", network(each))
    if access.allow is not None:
        for each in access.allow:
            yield directive("allow", network(each))
        yield directive("deny", "all")


ACCESS = Contributor(checks=_checks, guard=_guard, stream=_stream)
