"""L4 listeners: the stream block, with a map over server name and client address for the rules of a listener."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines import escapes
from lbgen.engines.nginx.access import denied_variable
from lbgen.engines.nginx.definitions import Definitions, Section
from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.forwarded_headers import unmapped_address
from lbgen.engines.nginx.listeners import listen_parameters
from lbgen.engines.nginx.names import network, reference
from lbgen.engines.nginx.pool_selection import shares
from lbgen.engines.nginx.statements import Entry, Geo, Line, Network, Split, Stream, StreamServer
from lbgen.engines.nginx.strings import text, variables
from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.tls import virtual_servers
from lbgen.engines.nginx.upstreams import upstreams
from lbgen.engines.nginx.view import L4Server
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, HostTable, L4Rule, Listener, Plan, Pool
from lbgen.plan.tls import PoolTls

_PEER = Atom("$binary_remote_addr")
_NO_UPSTREAM = Atom("nobody~")
"""An upstream that is down: nginx closes connections that no rule matches."""


class PortSettings(Struct, frozen=True):
    """What nginx sets per port: timeouts in milliseconds, TLS and PROXY header to endpoints."""

    connect: int
    idle: int
    tls: PoolTls | None
    proxy_protocol: str | None


def port_settings(plan: Plan, listener: Listener) -> tuple[PortSettings, ...]:
    """The different settings that the routes of a listener ask for; nginx can apply one."""
    settings: dict[PortSettings, None] = {}
    for rule in listener.l4_rules:
        action = _action(plan, rule)
        for target in action.targets:
            pool = plan.pool(target.pool)
            times = action.timeouts
            settings[PortSettings(times.connect, times.idle, pool.tls, pool.proxy_protocol)] = None
    return tuple(settings)


def _action(plan: Plan, rule: L4Rule) -> Forward:
    action = plan.route(rule.route).action
    if not isinstance(action, Forward):
        raise TypeError(f"L4 route {rule.route} does not forward")
    return action


def build_stream(plan: Plan, listeners: Sequence[Listener], pools: Sequence[Pool]) -> Stream:
    """The stream block."""
    definitions = Definitions()
    streams = _StreamServers(plan, definitions, is_alone=len(listeners) == 1)
    servers = tuple(server for listener in listeners for server in streams.build(listener))
    peer, has_maps = _PEER, bool(definitions.defined().maps)
    if any(x.proxy_protocol for x in listeners) and any(pool.balance is Balance.SOURCE_HASH for pool in pools):
        peer = unmapped_address(definitions, "remote_addr", "peer")  # a PROXY header may state an IPv6 address
    return Stream(
        servers=servers,
        upstreams=tuple(upstreams(pools, None, peer)),
        defined=definitions.defined(),
        empty_upstream=_NO_UPSTREAM if has_maps else None,
    )


class _StreamServers:
    def __init__(self, plan: Plan, definitions: Definitions, *, is_alone: bool) -> None:
        self._plan = plan
        self._definitions = definitions
        self._is_alone = is_alone

    def build(self, listener: Listener) -> Iterator[StreamServer]:
        """One server, or one per certificate."""
        upstream = self._upstream(listener)
        action = _action(self._plan, listener.l4_rules[0])
        pool = self._plan.pool(action.targets[0].pool)
        at = L4Server(self._definitions, listener, pool, upstream, self._is_alone)
        server = StreamServer(
            origin=Atom(listener.field),
            listen=listen_parameters(listener),
            upstream=upstream,
            connect=duration(action.timeouts.connect),
            idle=duration(action.timeouts.idle),
        )
        tls = listener.tls
        if tls is None or tls.passthrough:
            yield replace(server, lines=_lines(at))
            return
        # As with HTTP, the first certificate serves clients without SNI, and unknown names are rejected.
        for each in virtual_servers(replace(listener, hosts=(HostTable(None, ()),)), tls):
            own = _lines(replace(at, names=each.names, certificate=each.certificate))
            yield replace(server, lines=own, default=each.default)

    def _upstream(self, listener: Listener) -> Atom:
        """The upstream of the listener, a name or a variable."""
        rules = listener.l4_rules
        if len(rules) == 1 and rules[0].sni is None and not rules[0].sources:
            return self._with_access(rules[0], listener)
        keys: list[str] = []
        if any(rule.sni is not None for rule in rules):
            passthrough = listener.tls is not None and listener.tls.passthrough
            keys.append("ssl_preread_server_name" if passthrough else "ssl_server_name")
        sources = list(dict.fromkeys(rule.sources for rule in rules if rule.sources))
        keys += [self._source(each, listener) for each in sources]
        with_name = len(keys) > len(sources)
        entries = tuple(
            Entry(Literal(_key_regex(rule, sources, with_name=with_name), "regex"), self._with_access(rule, listener))
            for rule in rules
        )
        name, source = self._definitions.names.variable("to", listener.name), variables(keys)
        self._definitions.map(Section.L4, name, source, *entries, default=_NO_UPSTREAM, origin=listener.field)
        return reference(name)

    def _source(self, networks: tuple[str, ...], listener: Listener) -> str:
        """The variable that is 1 for clients in these networks."""
        name, is_new = self._definitions.named("from", listener.name, networks)
        if is_new:
            entries = tuple(Network(network(n), 1) for n in networks)
            self._definitions.add(Section.L4, Geo(Atom(listener.field), reference(name), entries))
        return name

    def _with_access(self, rule: L4Rule, listener: Listener) -> Atom:
        """The pool of a route, or none for clients that its access denies; later rules do not apply to them."""
        access = self._plan.route(rule.route).access
        if access is None:
            return self._pool(rule)
        name, is_new = self._definitions.named("admitted", rule.route)
        if is_new:
            denied = denied_variable(self._definitions, access, listener, rule.field)
            pool, nobody = self._pool(rule), Entry(Atom("1"), _NO_UPSTREAM)
            self._definitions.map(Section.L4, name, text(denied), nobody, default=pool, origin=rule.field)
        return reference(name)

    def _pool(self, rule: L4Rule) -> Atom:
        """The pool of a route, or the variable that splits its targets."""
        targets = [t for t in _action(self._plan, rule).targets if t.weight]
        if len(targets) == 1:
            return Atom(targets[0].pool)
        name, is_new = self._definitions.named("split", rule.route)
        if is_new:
            parts = shares(targets, [t.pool for t in targets])
            self._definitions.add(Section.L4, Split(Atom(rule.field), reference(name), parts))
        return reference(name)


def _lines(at: L4Server) -> tuple[Line, ...]:
    return tuple(line for each in FEATURES if each.stream for line in each.stream(at))


def _key_regex(rule: L4Rule, sources: list[tuple[str, ...]], *, with_name: bool) -> str:
    """A regex over the server name, if the key has one, and a digit per set of sources, a line each."""
    out = "^"
    if with_name:
        if rule.sni is None:
            out += r"[^\n]*\n"
        else:
            name = escapes.group(escapes.literal(rule.sni.name), escapes.plain())
            below = r"[^\n]+[.]" if rule.sni.wildcard else ""
            out += rf"(?i:{below}{name})[.]?\n"
    return out + "".join(r"1\n" if each == rule.sources else r"[01]\n" for each in sources)
