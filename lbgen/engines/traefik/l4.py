"""L4 listeners and their pools as Traefik's TCP and UDP routers and services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, habit, refused
from lbgen.engines.document import Tagged, comment_on
from lbgen.engines.traefik import names, tcp_weights
from lbgen.engines.traefik.timeouts import FOREVER, duration
from lbgen.engines.traefik.tls import build_closed_service, build_closing_routers, escape_regex
from lbgen.engines.traefik.view import CAN, Contributor
from lbgen.plan.model import Balance, Endpoint, Forward, L4Rule, Listener, Mode, Plan, Pool, Protocol, Route
from lbgen.plan.tls import PoolTls

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_ANY = "HostSNI(`*`)"

_IDLE = approximate(
    "Traefik never closes a silent TCP connection, whatever the idle time", {"timeouts.idle.l4": "time"}
)
_NO_BALANCE = refused(f"Traefik balances TCP and UDP round robin only{CAN}")
_NO_HEALTH = refused(f"Traefik does not check UDP servers{CAN}")
_NO_PASSIVE = refused(f"Traefik does not count failures of TCP connections{CAN}")
_NO_BACKUP = refused(f"Traefik has no backup for TCP and UDP servers without active checks{CAN}")
_ANY_SOURCE = refused("Traefik's UDP routers accept datagrams from every source; nginx and Envoy can filter them")
_HEADER = habit(
    "Traefik forwards a TCP connection without a PROXY header instead of closing it",
    {"listener.proxy_protocol.l4": "status 200"},
)


def build_tcp(plan: Plan, listeners: Iterable[Listener]) -> dict[str, Data]:
    """The `tcp` section for L4 listeners; empty when there is none."""
    routers: dict[str, Data] = {}
    services: dict[str, Data] = {}
    transports: dict[str, Data] = {}
    for listener in listeners:
        if listener.protocol is Protocol.UDP:
            continue
        entries = [entry for rule in listener.l4_rules for entry in _router_rules(plan, listener, rule)]
        for place, (rule, text, denies) in enumerate(entries):
            service = _tcp_service(plan, plan.route(rule.route), services, transports)
            data: dict[str, Data] = {
                "entryPoints": [names.entry_point(listener)],
                "rule": text,
                "priority": len(entries) - place,
                "service": f"{names.edge(listener)}-closed" if denies else service,
            }
            name = f"{names.edge(listener)}-{place}"
            if listener.tls is not None:
                way: Data = {"passthrough": True} if listener.tls.passthrough else {"options": names.edge(listener)}
                routers[name] = Tagged(rule.field, {**data, "tls": way})
            if listener.tls is None or (listener.tls.passthrough and rule.sni is None):
                routers[f"{name}-plain"] = Tagged(rule.field, data)
        if not _takes_all(plan, listener, entries):
            routers.update(build_closing_routers(listener))
            services.update(build_closed_service(names.edge(listener)))
    if not routers:
        return {}
    return {"routers": routers, "services": services, "serversTransports": transports}


def explain_tcp(data: dict[str, Data]) -> dict[str, Data]:
    """The section `tcp` with comments, and without what is empty."""
    notes = {
        "services": "A server of TCP has no weight, so each endpoint is a service.",
        "serversTransports": "After a half-close the other direction goes on; by default it would be cut after 100ms.",
    }
    return comment_on({key: value for key, value in data.items() if value}, notes)


def _takes_all(plan: Plan, listener: Listener, entries: Sequence[tuple[L4Rule, str, bool]]) -> bool:
    """Whether a listener forwards every connection, so that nothing is left to be closed."""
    if listener.tls is not None or len(entries) != 1:
        return False
    ((rule, text, denies),) = entries
    steered = tcp_weights.has_agent_weights(plan, plan.route(rule.route))  # to the service that closes, if none is up
    return text == _ANY and not denies and not steered


def _router_rules(plan: Plan, listener: Listener, rule: L4Rule) -> Iterator[tuple[L4Rule, str, bool]]:
    """The rule of an L4 rule's router; before it one (True) that matches clients denied by the route's access list.
    Both are conditions, because Traefik's middleware has allow lists only."""
    lists = (listener.access, plan.route(rule.route).access)
    if any(access is not None and access.allow == () for access in lists):
        yield rule, " && ".join(_conditions(rule)), True
        return
    everybody, chosen = lists
    parts = _conditions(rule)
    if everybody is not None:
        parts += [f"!{part}" for part in _sources(everybody.deny)] + _sources(everybody.allow or ())
    if chosen is not None:
        outside = [*_sources(chosen.deny), *(f"!{part}" for part in _sources(chosen.allow or ()))]
        if outside:
            yield rule, " && ".join([*parts, f"({' || '.join(outside)})"]), True
    yield rule, " && ".join(parts), False


def _conditions(rule: L4Rule) -> list[str]:
    if rule.sni is None:
        parts = [_ANY]
    elif rule.sni.wildcard:
        parts = [f"HostSNIRegexp(`^.+\\.{escape_regex(rule.sni.name)}$`)"]
    else:
        parts = [f"HostSNI(`{rule.sni.name}`)"]
    return parts + _sources(rule.sources)


def _sources(sources: Iterable[str]) -> list[str]:
    text = " || ".join(f"ClientIP(`{source}`)" for source in sources)
    return [f"({text})"] if text else []


def _tcp_service(plan: Plan, route: Route, services: dict[str, Data], transports: dict[str, Data]) -> str:
    """The weighted service of a route over the endpoints of all its pools. A TCP server has no weight, so each endpoint
    is a service."""
    name = tcp_weights.service_name(route)
    if name in services or not isinstance(route.action, Forward):
        return name
    shares, endpoints = _shares(plan, route)
    has_agent = tcp_weights.has_agent_weights(plan, route)
    for child, (endpoint, pool) in endpoints.items():
        if not has_agent and child not in shares:
            continue
        transports[child] = Tagged(route.field, _transport(route.action.timeouts.connect, pool, endpoint))
        server: dict[str, Data] = {"address": endpoint.authority}
        if pool.tls is not None:
            server["tls"] = True
        services[child] = Tagged(endpoint.field, {"loadBalancer": {"serversTransport": child, "servers": [server]}})
    if has_agent or any(child not in endpoints for child in shares):
        services.update(build_closed_service(name))
    if not has_agent:  # otherwise the agent's file has the weights
        services[name] = _weighted_service(shares, endpoints, route)
    return name


def _shares(plan: Plan, route: Route) -> tuple[dict[str, int], dict[str, tuple[Endpoint, Pool]]]:
    """The weights of a route's services with every endpoint up, and the endpoint and pool of each service."""
    groups = tcp_weights.group_endpoints(plan, route)
    pools = [plan.pool(group[1]) for group in groups]
    endpoints = {
        member[0]: (endpoint, pool)
        for group, pool in zip(groups, pools, strict=True)
        for member, endpoint in zip(group[2], pool.endpoints, strict=True)
        if endpoint.weight
    }
    return dict(tcp_weights.compute_weights(tcp_weights.service_name(route), groups, {})), endpoints


def _weighted_service(
    shares: Mapping[str, int], endpoints: Mapping[str, tuple[Endpoint, Pool]], route: Route
) -> Tagged:
    fields = {child: endpoints[child][0].field if child in endpoints else route.field for child in shares}
    children: Data = [Tagged(fields[child], {"name": child, "weight": weight}) for child, weight in shares.items()]
    return Tagged(route.field, {"weighted": {"services": children}})


def _transport(connect: int, pool: Pool, endpoint: Endpoint) -> dict[str, Data]:
    data: dict[str, Data] = {
        "dialTimeout": duration(connect) if connect else FOREVER,
        "terminationDelay": "-1ms",  # none; the default, 100ms, would cut the other direction after a half-close
    }
    if pool.proxy_protocol is not None:
        data["proxyProtocol"] = {"version": int(pool.proxy_protocol.removeprefix("v"))}
    if pool.tls is not None:
        data["tls"] = _tls(pool.tls, endpoint)
    return data


def _tls(tls: PoolTls, endpoint: Endpoint) -> dict[str, Data]:
    data: dict[str, Data] = {"serverName": tls.server_name or endpoint.host, "insecureSkipVerify": not tls.verify}
    if tls.ca is not None:
        data["rootCAs"] = [tls.ca.path]
    if tls.certificate is not None:
        data["certificates"] = [{"certFile": tls.certificate.cert.path, "keyFile": tls.certificate.key.path}]
    return data


def build_udp(plan: Plan, listeners: Iterable[Listener]) -> dict[str, Data]:
    """The `udp` section; empty without UDP listeners. Such a listener has one rule without conditions."""
    routers: dict[str, Data] = {}
    services: dict[str, Data] = {}
    for listener in listeners:
        if listener.protocol is not Protocol.UDP:
            continue
        for rule in listener.l4_rules:
            route = plan.route(rule.route)
            name = tcp_weights.service_name(route)
            data: dict[str, Data] = {"entryPoints": [names.entry_point(listener)], "service": name}
            routers[names.edge(listener)] = Tagged(rule.field, data)
            if name in services or not isinstance(route.action, Forward):
                continue
            shares, endpoints = _shares(plan, route)
            for child in shares:
                if child in endpoints:
                    server: dict[str, Data] = {"address": endpoints[child][0].authority}
                    services[child] = Tagged(endpoints[child][0].field, {"loadBalancer": {"servers": [server]}})
                else:
                    services[child] = {"loadBalancer": {"servers": []}}
            services[name] = _weighted_service(shares, endpoints, route)
    return {"routers": routers, "services": services} if routers else {}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.mode is Mode.L4:
            yield from _listener_objections(plan, listener)


def _listener_objections(plan: Plan, listener: Listener) -> Iterator[Objection]:
    if listener.proxy_protocol:
        yield Objection(_HEADER, f"{listener.field}.proxy_protocol", "listener.proxy_protocol")
    if listener.protocol is Protocol.UDP and listener.access is not None:
        yield Objection(_ANY_SOURCE, f"{listener.field}.access", "listener.access")
    for rule in listener.l4_rules:
        yield from _route_objections(plan, listener, rule)


def _route_objections(plan: Plan, listener: Listener, rule: L4Rule) -> Iterator[Objection]:
    route = plan.route(rule.route)
    if not isinstance(route.action, Forward):
        return
    if listener.protocol is Protocol.UDP and route.access is not None:
        yield Objection(_ANY_SOURCE, f"{route.field}.access", "route.access")
    if listener.protocol is Protocol.UDP and rule.sources:
        yield Objection(_ANY_SOURCE, f"{route.field}.sources", "route.sources")
    if listener.protocol is Protocol.TCP and route.action.timeouts.idle:
        yield Objection(_IDLE, f"{route.field}.timeouts.idle", "timeouts.idle")
    for target in route.action.targets:
        yield from _pool_objections(plan.pool(target.pool), listener.protocol)


def _pool_objections(pool: Pool, protocol: Protocol) -> Iterator[Objection]:
    if pool.balance is not Balance.ROUND_ROBIN and len(pool.endpoints) > 1:
        yield Objection(_NO_BALANCE, f"{pool.field}.balance", f"pool.balance.{pool.balance}")
    checked = pool.active is not None and protocol is Protocol.TCP
    if pool.active is not None and not checked:
        yield Objection(_NO_HEALTH, f"{pool.field}.health.active", "pool.health.active")
    if pool.passive is not None:
        yield Objection(_NO_PASSIVE, f"{pool.field}.health.passive", "pool.health.passive")
    for endpoint in pool.endpoints:
        if endpoint.backup and not checked:
            yield Objection(_NO_BACKUP, f"{endpoint.field}.backup", "pool.backup")


L4 = Contributor(objections=_objections)
