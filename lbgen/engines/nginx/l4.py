"""L4 listeners: the stream block, with a map over server name and client address for the rules of a listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines import escapes
from lbgen.engines.metrics_spec import L4_MARK
from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.nginx import tls as listener_tls
from lbgen.engines.nginx.access_log import FILE
from lbgen.engines.nginx.limits import AccessGeos, unmapping_map
from lbgen.engines.nginx.listeners import listen_parameters, real_ip_from
from lbgen.engines.nginx.names import Names, network, reference
from lbgen.engines.nginx.pool_selection import shares
from lbgen.engines.nginx.strings import directive, text, variables
from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.upstream_protocols import tls_lines, verifies_address
from lbgen.engines.nginx.upstreams import upstream
from lbgen.engines.nginx.view import Entry, Geo, Line, Map, Network, Split, Stream, StreamServer
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance, Forward, HostTable, L4Rule, Listener, Plan, Pool, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.plan.policy import Access
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


def build_stream(plan: Plan, listeners: list[Listener], pools: list[Pool]) -> Stream:
    """The stream block."""
    streams = _StreamServers(plan, is_alone=len(listeners) == 1)
    servers = tuple(server for listener in listeners for server in streams.build(listener))
    peer = _PEER
    if any(x.proxy_protocol for x in listeners) and any(pool.balance is Balance.SOURCE_HASH for pool in pools):
        streams.maps.append(unmapping_map("remote_addr", "peer"))  # a PROXY header may state it as an IPv6 address
        peer = reference("peer")
    return Stream(
        servers=servers,
        upstreams=tuple(upstream(pool, peer, l4=True) for pool in pools),
        splits=tuple(streams.splits),
        maps=tuple(streams.maps),
        geos=(*streams.geos, *streams.access.geos),
        zones=tuple(streams.zones),
        empty_upstream=_NO_UPSTREAM if len(streams.maps) > (peer != _PEER) else None,
    )


class _StreamServers:
    """Builds servers; collects what the stream block needs beside them."""

    def __init__(self, plan: Plan, *, is_alone: bool) -> None:
        self._is_alone = is_alone
        self.splits: list[Split] = []
        self.maps: list[Map] = []
        self.geos: list[Geo] = []
        self.zones: list[Line] = []
        self._plan = plan
        self._names = Names()
        self.access = AccessGeos(self._names)
        self._sources: dict[tuple[str, ...], str] = {}
        self._pools: dict[str, Atom] = {}
        self._admitted: dict[str, Atom] = {}

    def build(self, listener: Listener) -> Iterator[StreamServer]:
        """One server, or one per certificate."""
        upstream = self._upstream(listener)
        settings = port_settings(self._plan, listener)[0]
        common = (*self._lines(listener, settings), *self._log(listener, upstream))
        tls = listener.tls
        server = StreamServer(
            origin=Atom(listener.field),
            listen=_listen_parameters(listener),
            upstream=upstream,
            connect=duration(settings.connect),
            idle=duration(settings.idle),
            lines=common,
        )
        if tls is None or tls.passthrough:
            yield server
            return
        # As with HTTP, the first certificate serves clients without SNI, and unknown names are rejected.
        for each in listener_tls.virtual_servers(replace(listener, hosts=(HostTable(None, ()),)), tls):
            ssl = listener_tls.tls_directives(tls, each.certificate, listener_tls.STREAM_SESSIONS)
            own = (directive("server_name", *each.names), *ssl)
            yield replace(server, lines=(*own, *common), default=each.default)

    def _lines(self, listener: Listener, settings: PortSettings) -> Iterator[Line]:
        if listener.protocol is Protocol.UDP:
            yield directive("proxy_buffer_size", "64k")  # what of an answer exceeds the buffer is lost
        if listener.tls is not None and listener.tls.passthrough:
            yield directive("ssl_preread", "on")
        if listener.proxy_protocol:
            yield from real_ip_from()
        if listener.access is not None:
            yield from _access(listener.access)
        if listener.max_connections is not None:
            zone = f"open-{listener.name}"
            self.zones.append(directive("limit_conn_zone", "all", f"zone={zone}:64k"))
            yield directive("limit_conn", zone, str(listener.max_connections))
        if settings.proxy_protocol is not None:
            yield directive("proxy_protocol", "on")
        if settings.tls is not None:
            pool = self._plan.pool(_action(self._plan, listener.l4_rules[0]).targets[0].pool)
            yield directive("proxy_ssl", "on")
            for line in tls_lines(pool, settings.tls, "proxy"):
                if not (line.name.text == "proxy_ssl_name" and verifies_address(pool, settings.tls)):
                    yield line

    def _log(self, listener: Listener, upstream: Atom) -> Iterator[Line]:
        """The log of connections, and the one that the agent counts."""
        traffic = {"received": "$bytes_received", "sent": "$bytes_sent"}
        pool, endpoint, seconds = upstream.text, "$upstream_addr", "$session_time"
        if listener.access_log:
            start = {"time": "$msec", "listener": listener.name, "client": "$remote_addr", "pool": pool}
            values = {**start, "endpoint": endpoint, "status": "$status", "duration": seconds, **traffic}
            yield from self._log_file(f"json-{listener.name}", FILE, "{", values)
        if listener.metrics and listener.protocol is not Protocol.UDP:
            counted = {"pool": pool, "endpoint": endpoint, "seconds": seconds, **traffic}
            yield from self._log_file(f"l4-{listener.name}", METRICS_LOG, f'{L4_MARK}"{listener.name}",', counted)

    def _log_file(self, name: str, file: str, start: str, values: Mapping[str, str]) -> Iterator[Line]:
        """A log whose lines are one JSON object each; of a listener that is alone it stands in the stream block."""
        fields = ",".join(f'"{key}":"{value}"' for key, value in values.items())
        self.zones.append(directive("log_format", name, "escape=json", f"'{start}{fields}}}'"))
        log = directive("access_log", file, name, "buffer=64k", "flush=1s")
        if self._is_alone:
            self.zones.append(log)
        else:
            yield log

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
        name = self._names.variable("to", listener.name)
        self.maps.append(Map(Atom(listener.field), variables(keys), reference(name), _NO_UPSTREAM, entries))
        return reference(name)

    def _source(self, networks: tuple[str, ...], listener: Listener) -> str:
        """The variable that is 1 for clients in these networks."""
        if networks not in self._sources:
            name = self._sources[networks] = self._names.variable("from", listener.name)
            entries = tuple(Network(network(n), 1) for n in networks)
            self.geos.append(Geo(Atom(listener.field), reference(name), entries))
        return self._sources[networks]

    def _with_access(self, rule: L4Rule, listener: Listener) -> Atom:
        """The pool of a route, or none for clients that its access denies; later rules do not apply to them."""
        access = self._plan.route(rule.route).access
        if access is None:
            return self._pool(rule)
        if rule.route not in self._admitted:
            denied = self.access.variable(access, listener, rule.field)
            name = self._names.variable("admitted", rule.route)
            entry = Entry(Atom("1"), _NO_UPSTREAM)
            self.maps.append(Map(Atom(rule.field), text(denied), reference(name), self._pool(rule), (entry,)))
            self._admitted[rule.route] = reference(name)
        return self._admitted[rule.route]

    def _pool(self, rule: L4Rule) -> Atom:
        """The pool of a route, or the variable that splits its targets."""
        if rule.route not in self._pools:
            targets = [t for t in _action(self._plan, rule).targets if t.weight]
            pool = Atom(targets[0].pool)
            if len(targets) > 1:
                name = self._names.variable("split", rule.route)
                parts = shares(targets, [t.pool for t in targets])
                self.splits.append(Split(Atom(rule.field), reference(name), parts))
                pool = reference(name)
            self._pools[rule.route] = pool
        return self._pools[rule.route]


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


def _listen_parameters(listener: Listener) -> tuple[Atom, ...]:
    if listener.protocol is Protocol.UDP:
        # With a socket per worker all datagrams of a client reach the same worker.
        plain = listen_parameters(replace(listener, tls=None))
        return tuple(Atom(f"{each.text} udp reuseport") for each in plain)
    tls = listener.tls
    plain_listener = replace(listener, tls=None) if tls is not None and tls.passthrough else listener
    return listen_parameters(plain_listener)


def _access(access: Access) -> Iterator[Line]:
    """The first matching line applies."""
    for each in access.deny:
        yield directive("deny", network(each))
    if access.allow is not None:
        for each in access.allow:
            yield directive("allow", network(each))
        yield directive("deny", "all")
