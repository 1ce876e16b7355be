"""An L4 listener -> its frontend: who may come in, and where a connection goes by server name and source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.listeners import bind_words
from lbgen.engines.haproxy.statements import Line, Word, line
from lbgen.engines.haproxy.upstreams import milliseconds
from lbgen.engines.text import Atom
from lbgen.plan.model import Forward
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.haproxy.lookup import Lookup
    from lbgen.engines.haproxy.statements import Maps
    from lbgen.engines.haproxy.upstreams import Backends
    from lbgen.plan.model import L4Rule, Listener
    from lbgen.plan.policy import Access

DENIED = "access:denied"
"""The backend that closes connections of clients whom a route's access keeps out."""
_INLINE = 20  # networks in a condition; more go to a file


@record
class Passage:
    """`idle` is the longest silence of its connections."""

    name: Atom
    origin: Atom
    address: Atom
    port: int
    bind: tuple[Word, ...]
    most: int | None
    idle: Atom
    lines: tuple[Line, ...]


def passage(listener: Listener, address: Atom, lookup: Lookup, backends: Backends, maps: Maps) -> Passage:
    """Rules stand in the order of trial; a connection that none takes is closed."""
    actions = {rule.route: lookup.route(rule.route).action for rule in listener.l4_rules}
    idles = [action.timeouts.idle for action in actions.values() if isinstance(action, Forward)]
    lines = _access_lines(listener, maps)
    terminated = listener.tls is not None and not listener.tls.passthrough
    if any(rule.sni for rule in listener.l4_rules) and not terminated:
        lines += [
            line(listener.field, "tcp-request inspect-delay 5s"),
            line(listener.field, "tcp-request content accept if { req.ssl_hello_type 1 }"),
        ]
    sni = "ssl_fc_sni,lower" if terminated else "req.ssl_sni,lower"
    for rule in listener.l4_rules:
        lines += _rule_lines(rule, sni, lookup, backends, maps)
    return Passage(
        Atom(listener.name),
        Atom(listener.field),
        address,
        listener.port,
        bind_words(listener),
        listener.max_connections,
        Atom(milliseconds(0 if 0 in idles else max(idles, default=0))),
        tuple(lines),
    )


def _access_lines(listener: Listener, maps: Maps) -> list[Line]:
    if listener.access is None:
        return []
    field = f"{listener.field}.access"
    return [
        line(field, "tcp-request session reject", *condition)
        for condition in _outside(listener.access, "access", field, maps)
    ]


def _outside(access: Access, purpose: str, field: str, maps: Maps) -> Iterator[tuple[str, ...]]:
    """Conditions of which one holds for every client that is kept out; an empty one holds for all."""
    if access.allow == ():
        yield ()
        return
    if access.deny:
        yield ("if", _networks(access.deny, f"{purpose}.deny", field, maps))
    if access.allow:
        yield ("if", f"!{_networks(access.allow, f'{purpose}.allow', field, maps)}")


def _networks(networks: tuple[str, ...], purpose: str, origin: str, maps: Maps) -> str:
    if len(networks) <= _INLINE:
        return f"{{ src {' '.join(networks)} }}"
    listed = maps.file(f"{purpose}.lst", "networks")
    for network in networks:
        listed.add(network, "", origin)
    return f"{{ src -f {listed.name} }}"


def _rule_lines(rule: L4Rule, sni: str, lookup: Lookup, backends: Backends, maps: Maps) -> list[Line]:
    route = lookup.route(rule.route)
    action = route.action
    if not isinstance(action, Forward):
        raise ValueError(f"route {rule.route} does not forward")
    asked = []
    if rule.sni is not None:
        asked.append(
            f"{{ {sni} -m end .{rule.sni.name} }}" if rule.sni.wildcard else f"{{ {sni} -m str {rule.sni.name} }}"
        )
    if rule.sources:
        asked.append(_networks(rule.sources, f"{rule.id}.sources", rule.field, maps))
    lines = []
    if route.access is not None:
        field = f"{route.field}.access"
        for condition in _outside(route.access, f"{rule.id}.access", field, maps):
            lines.append(_use(DENIED, [*asked, *condition[1:]], field))
        if route.access.allow == ():
            return lines
    left = sum(target.weight for target in action.targets)
    for target in action.targets:
        if not target.weight:
            continue
        name = backends.name(lookup.pool(target.pool), action.timeouts)
        drawn = [f"{{ rand({left}) lt {target.weight} }}"] if target.weight != left else []
        left -= target.weight
        lines.append(_use(name, [*asked, *drawn], target.field))
        if not drawn:
            break
    return lines


def _use(backend: str, conditions: list[str], field: str) -> Line:
    if conditions:
        return line(field, f"use_backend {backend} if", *conditions)
    return line(field, "default_backend", backend)
