"""L4 listeners -> servers that pass bytes: rules become a map over server name and source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from ipaddress import ip_network
from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx import tls as listener_tls
from lbgen.engines.nginx.access import Gatekeeper
from lbgen.engines.nginx.listeners import listen, real_ip
from lbgen.engines.nginx.names import Names, inline, reference
from lbgen.engines.nginx.split_shares import shares
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.upstream_protocols import by_address, tls_lines
from lbgen.engines.nginx.upstreams import upstreams
from lbgen.engines.nginx.view import Entry, Geo, Line, Map, Network, Split, Stream, StreamServer
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, HostTable, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.plan.model import L4Rule, Listener, Plan, Pool
    from lbgen.plan.policy import Access
    from lbgen.plan.tls import PoolTls

_PEER = Atom("$binary_remote_addr")
NOBODY = Atom("nobody~")
"""An upstream without endpoints: a connection that no rule takes is closed."""
_CIDR = r"[0-9a-fA-F.:/]+"


@dataclass(frozen=True, slots=True)
class Manner:
    """What nginx can only set for a whole port: times in milliseconds, TLS and PROXY header to endpoints."""

    connect: int
    idle: int
    tls: PoolTls | None
    proxy_protocol: str | None


def manners(plan: Plan, listener: Listener) -> tuple[Manner, ...]:
    """How the routes of a listener want connections treated; one can be honoured."""
    found: dict[Manner, None] = {}
    for rule in listener.l4_rules:
        action = _action(plan, rule)
        for target in action.targets:
            pool = plan.pool(target.pool)
            times = action.timeouts
            found[Manner(times.connect, times.idle, pool.tls, pool.proxy_protocol)] = None
    return tuple(found)


def _action(plan: Plan, rule: L4Rule) -> Forward:
    action = plan.route(rule.route).action
    if not isinstance(action, Forward):
        raise TypeError(f"L4 route {rule.route} does not forward")
    return action


def stream(plan: Plan, listeners: list[Listener], pools: Iterable[Pool]) -> Stream:
    """The whole stream block."""
    made = _Streams(plan)
    servers = tuple(server for listener in listeners for server in made.servers(listener))
    return Stream(
        servers=servers,
        upstreams=tuple(u for pool in pools for u in upstreams(pool, _PEER, tcp=True)),
        splits=tuple(made.splits),
        maps=tuple(made.maps),
        geos=(*made.geos, *made.gatekeeper.geos),
        zones=tuple(made.zones),
        nobody=NOBODY if made.maps else None,
        introduced=any(listener.proxy_protocol for listener in listeners),
    )


class _Streams:
    """Makes servers; what belongs beside them gathers in lists."""

    def __init__(self, plan: Plan) -> None:
        self.splits: list[Split] = []
        self.maps: list[Map] = []
        self.geos: list[Geo] = []
        self.zones: list[Line] = []
        self._plan = plan
        self._names = Names()
        self.gatekeeper = Gatekeeper(self._names)
        self._sources: dict[tuple[str, ...], str] = {}
        self._chosen: dict[str, Atom] = {}
        self._guarded: dict[str, Atom] = {}

    def servers(self, listener: Listener) -> Iterator[StreamServer]:
        """One server, or one for each certificate."""
        upstream = self._introduced(listener, self._upstream(listener))
        manner = manners(self._plan, listener)[0]
        common = tuple(self._lines(listener, manner))
        tls = listener.tls
        server = StreamServer(
            origin=Atom(listener.field),
            listen=_sockets(listener),
            upstream=upstream,
            connect=duration(manner.connect),
            idle=duration(manner.idle),
            lines=common,
        )
        if tls is None or tls.passthrough:
            yield server
            return
        # Without SNI the first certificate counts, and an unknown name is refused, as with HTTP.
        for face in listener_tls.faces(replace(listener, hosts=(HostTable(None, ()),)), tls):
            own = (Line(Atom("server_name"), face.names), *listener_tls.lines(tls, face.certificate))
            yield replace(server, lines=(*own, *common), default=face.default)

    def _lines(self, listener: Listener, manner: Manner) -> Iterator[Line]:
        if listener.tls is not None and listener.tls.passthrough:
            yield _line("ssl_preread", "on")
        if listener.proxy_protocol:
            yield from real_ip()
        if listener.access is not None:
            yield from _access(listener.access)
        if listener.max_connections is not None:
            zone = f"open-{listener.name}"
            self.zones.append(_line("limit_conn_zone", "all", f"zone={zone}:64k"))
            yield _line("limit_conn", zone, str(listener.max_connections))
        if manner.proxy_protocol is not None:
            yield _line("proxy_protocol", "on")
        pool = next(self._plan.pool(t.pool) for t in _action(self._plan, listener.l4_rules[0]).targets)
        if manner.tls is not None:
            yield _line("proxy_ssl", "on")
            for line in tls_lines(pool, manner.tls, "proxy"):
                if not (line.name.text == "proxy_ssl_name" and by_address(pool, manner.tls)):
                    yield line

    def _introduced(self, listener: Listener, upstream: Atom) -> Atom:
        """`upstream`, but nobody where the PROXY header names no addresses."""
        if not listener.proxy_protocol:
            return upstream
        name = self._names.variable("introduced", listener.name)
        entry = Entry(Atom("1"), NOBODY)
        self.maps.append(Map(Atom(listener.field), text(inline("misintroduced")), Atom(f"${name}"), upstream, (entry,)))
        return reference(name)

    def _upstream(self, listener: Listener) -> Atom:
        """Where connections go: a name, or the variable that holds it."""
        rules = listener.l4_rules
        if len(rules) == 1 and rules[0].sni is None and not rules[0].sources:
            return self._admitted(rules[0], listener)
        keys: list[str] = []
        if any(rule.sni is not None for rule in rules):
            passed = listener.tls is not None and listener.tls.passthrough
            keys.append("ssl_preread_server_name" if passed else "ssl_server_name")
        sources = list(dict.fromkeys(rule.sources for rule in rules if rule.sources))
        keys += [self._source(each, listener) for each in sources]
        entries = tuple(
            Entry(
                Literal(_pattern(rule, sources, named=len(keys) > len(sources)), "regex"),
                self._admitted(rule, listener),
            )
            for rule in rules
        )
        name = self._names.variable("to", listener.name)
        source = text(*(part for key in keys for part in (inline(key), "\n")))
        self.maps.append(Map(Atom(listener.field), source, Atom(f"${name}"), NOBODY, entries))
        return reference(name)

    def _source(self, networks: tuple[str, ...], listener: Listener) -> str:
        """The variable that is 1 for clients of these networks."""
        if networks not in self._sources:
            name = self._sources[networks] = self._names.variable("from", listener.name)
            entries = tuple(Network(Atom.of(_CIDR, str(ip_network(n))), 1) for n in networks)
            self.geos.append(Geo(Atom(listener.field), Atom(f"${name}"), entries))
        return self._sources[networks]

    def _admitted(self, rule: L4Rule, listener: Listener) -> Atom:
        """The pool of a route, but nobody for clients that its access keeps out: no later rule takes them."""
        access = self._plan.route(rule.route).access
        if access is None:
            return self._choice(rule)
        if rule.route not in self._guarded:
            denied = self.gatekeeper.denied(access, listener, rule.field)
            name = self._names.variable("admitted", rule.route)
            entry = Entry(Atom("1"), NOBODY)
            self.maps.append(Map(Atom(rule.field), text(denied), Atom(f"${name}"), self._choice(rule), (entry,)))
            self._guarded[rule.route] = reference(name)
        return self._guarded[rule.route]

    def _choice(self, rule: L4Rule) -> Atom:
        """The pool of a route, or the variable that chooses one."""
        if rule.route not in self._chosen:
            targets = [t for t in _action(self._plan, rule).targets if t.weight]
            pool = Atom(targets[0].pool)
            if len(targets) > 1:
                name = self._names.variable("split", rule.route)
                parts = shares(targets, [t.pool for t in targets])
                self.splits.append(Split(Atom(rule.field), Atom(f"${name}"), parts))
                pool = reference(name)
            self._chosen[rule.route] = pool
        return self._chosen[rule.route]


def _pattern(rule: L4Rule, sources: list[tuple[str, ...]], *, named: bool) -> str:
    """A regex over the server name, if it is asked for, and a digit for each set of sources; a line each."""
    out = "^"
    if named:
        if rule.sni is None:
            out += r"[^\n]*\n"
        else:
            name = escapes.group(escapes.literal(rule.sni.name), escapes.plain())
            below = r"[^\n]+[.]" if rule.sni.wildcard else ""
            out += rf"(?i:{below}{name})[.]?\n"
    return out + "".join(r"1\n" if each == rule.sources else r"[01]\n" for each in sources)


def _sockets(listener: Listener) -> tuple[Atom, ...]:
    if listener.protocol is Protocol.UDP:
        # Each worker has a socket of its own, so that all datagrams of a client reach the same one.
        return tuple(Atom(f"{each.text} udp reuseport") for each in listen(replace(listener, tls=None), old=False))
    tls = listener.tls
    plain = replace(listener, tls=None) if tls is not None and tls.passthrough else listener
    return listen(replace(plain, http2=False), old=False)


def _access(access: Access) -> Iterator[Line]:
    """The first line that holds counts."""
    for network in access.deny:
        yield _line("deny", network)
    if access.allow is not None:
        for network in access.allow:
            yield _line("allow", network)
        yield _line("deny", "all")


def _line(name: str, *args: str) -> Line:
    return Line(Atom(name), tuple(Atom(arg) for arg in args))
