"""Verdicts on single places of a plan that Traefik refuses or approximates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.traefik.tls import find_terminating, list_certificates
from lbgen.plan.features import Feature
from lbgen.plan.forwarding import PROXY_FIELDS
from lbgen.plan.model import Balance, Forward, Mode, Protocol
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import L4Rule, Listener, Plan, Pool

_IDLE = approximate(
    "Traefik never closes a silent TCP connection, whatever the idle time", {"timeouts.idle.l4": "open"}
)
_BALANCE = refused("Traefik balances TCP and UDP round robin only; nginx, HAProxy and Envoy can")
_HEALTH = refused("Traefik does not check UDP servers; nginx, HAProxy and Envoy can")
_PASSIVE = refused("Traefik does not count failures of TCP connections; nginx, HAProxy and Envoy can")
_BACKUP = refused("Traefik has no backup for TCP and UDP servers without active checks; nginx, HAProxy and Envoy can")
_FULL = refused("Traefik does not limit TCP connections to a server; nginx, HAProxy and Envoy can")
_SLOW = refused("Traefik has no slow start for TCP servers; HAProxy and Envoy can")
_SOURCES = refused("Traefik's UDP routers accept datagrams from every source; nginx and Envoy can filter them")
_HEADER = approximate(
    "Traefik forwards a TCP connection without a PROXY header instead of closing it",
    {"listener.proxy_protocol.l4": "status 200"},
)
_FIRST = approximate(
    "Traefik shows clients without a server name the first certificate of the first TLS listener, on this listener too",
    {"listener.tls.no_sni.other": "text: TLS: "},
)
_TWICE = refused("Traefik picks either of two certificates that hold the same name; nginx, HAProxy and Envoy can")


_CLAIMED = refused(
    "the lbgen plugin of Traefik would believe such a header of any client; with `guarantees: engine` its own rules "
    "read those of trusted proxies alone"
)


def find_objections(plan: Plan) -> Iterator[Objection]:
    """All of them, in the order of the plan."""
    yield from _tls_objections(plan)
    for listener in plan.listeners:
        if listener.mode is Mode.L4:
            yield from _listener_objections(listener)
            for rule in listener.l4_rules:
                yield from _route_objections(plan, listener, rule)


def find_claimed(plan: Plan) -> Iterator[Objection]:
    """Rules and keys on fields that only trusted proxies may set, of a plan that the plugin serves."""
    for rule in (rule for listener in plan.listeners for table in listener.hosts for rule in table.rules):
        route = plan.route(rule.route)
        if any(header.name in PROXY_FIELDS for header in rule.match.headers):
            yield Objection(_CLAIMED, rule.field)
        for word, limit in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
            if limit is not None and limit.key.kind is KeyKind.HEADER and limit.key.name in PROXY_FIELDS:
                yield Objection(_CLAIMED, f"{route.field}.{word}")
        for target in route.action.targets if isinstance(route.action, Forward) else ():
            key = plan.pool(target.pool).hash_key
            if key is not None and key.kind is KeyKind.HEADER and key.name in PROXY_FIELDS:
                yield Objection(_CLAIMED, f"{plan.pool(target.pool).field}.balance")


def _tls_objections(plan: Plan) -> Iterator[Objection]:
    found = list(find_terminating(plan.listeners))
    for listener, tls in found[1:]:
        if tls.certificates[0].cert.path != found[0][1].certificates[0].cert.path:
            yield Objection(_FIRST, f"{listener.field}.tls", Feature.TLS_NO_SNI)
    holders: dict[str, str] = {}
    for certificate in list_certificates(plan.listeners):
        for name in certificate.names:
            if holders.setdefault(str(name), certificate.cert.path) != certificate.cert.path:
                yield Objection(_TWICE, certificate.field, Feature.TLS_TERMINATE)
                break


def _listener_objections(listener: Listener) -> Iterator[Objection]:
    if listener.proxy_protocol:
        yield Objection(_HEADER, f"{listener.field}.proxy_protocol", Feature.PROXY_PROTOCOL_IN)
    if listener.protocol is Protocol.UDP and listener.access is not None:
        yield Objection(_SOURCES, f"{listener.field}.access", Feature.LISTENER_ACCESS)


def _route_objections(plan: Plan, listener: Listener, rule: L4Rule) -> Iterator[Objection]:
    route = plan.route(rule.route)
    if not isinstance(route.action, Forward):
        return
    if listener.protocol is Protocol.UDP and route.access is not None:
        yield Objection(_SOURCES, f"{route.field}.access", Feature.ROUTE_ACCESS)
    if listener.protocol is Protocol.UDP and rule.sources:
        yield Objection(_SOURCES, f"{route.field}.sources", Feature.L4_SOURCES)
    if listener.protocol is Protocol.TCP and route.action.timeouts.idle:
        yield Objection(_IDLE, f"{route.field}.timeouts.idle", Feature.TIMEOUT_IDLE)
    for target in route.action.targets:
        yield from _pool_objections(plan.pool(target.pool), listener.protocol)


_BALANCES = {
    Balance.LEAST_CONNECTIONS: Feature.LEAST_CONNECTIONS,
    Balance.RANDOM: Feature.RANDOM,
    Balance.SOURCE_HASH: Feature.SOURCE_HASH,
    Balance.HASH: Feature.HASH,
}


def _pool_objections(pool: Pool, protocol: Protocol) -> Iterator[Objection]:
    if pool.balance in _BALANCES and len(pool.endpoints) > 1:
        yield Objection(_BALANCE, f"{pool.field}.balance", _BALANCES[pool.balance])
    checked = pool.active is not None and protocol is Protocol.TCP
    if pool.active is not None and not checked:
        yield Objection(_HEALTH, f"{pool.field}.health.active", Feature.HEALTH_ACTIVE)
    if pool.passive is not None:
        yield Objection(_PASSIVE, f"{pool.field}.health.passive", Feature.HEALTH_PASSIVE)
    if pool.max_per_endpoint is not None:
        yield Objection(_FULL, f"{pool.field}.connections.max_per_endpoint", Feature.MAX_PER_ENDPOINT)
    if pool.slow_start:
        yield Objection(_SLOW, f"{pool.field}.slow_start", Feature.SLOW_START)
    for endpoint in pool.endpoints:
        if endpoint.backup and not checked:
            yield Objection(_BACKUP, f"{endpoint.field}.backup", Feature.BACKUP)
