"""Where listeners and endpoints of a verification are: at the topology's own addresses, in an isolated network, or at
free ports of 127.0.0.1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace

from lbgen.conformance.free_ports import FreePorts
from lbgen.plan.forwarding import DEFAULT_PORTS
from lbgen.plan.model import Endpoint, Forward, Listener, Mode, Plan, Pool, Protocol, Redirect
from lbgen.plan.overlay import with_endpoints, with_ports

if TYPE_CHECKING:
    from lbgen.conformance.verify.jobs import Job

LOOPBACK = "127.0.0.1"  # where everything is that cannot keep its address
_OK = 200  # what stand-ins answer to checks


def why_moved(plan: Plan) -> str:
    """Why listeners and endpoints are verified on other addresses; "" when they keep their own.

    Engine and endpoints each have a loopback of their own, clients have IPv4 addresses, nobody resolves names, an
    endpoint tells of which pool it is, and stand-ins answer checks as they answer requests.
    """
    passed_on = l4_pools(plan)
    fields: dict[tuple[str, int, bool], str] = {}
    for listener in plan.listeners:
        address = ip_address(listener.address)
        if address.is_loopback:
            return f"{listener.field} is on loopback"
        if address.version == 6 and not address.is_unspecified:
            return f"{listener.field} has an IPv6 address, and the clients of a verification have none"
    for pool in plan.pools:
        if pool.active is not None and not any(first <= _OK <= last for first, last in pool.active.statuses):
            return f"the checks of {pool.field} expect another status than {_OK}"
        for endpoint in pool.endpoints:
            if not endpoint.is_ip:
                return f"{endpoint.field} is a name"
            if ip_address(endpoint.host).is_loopback:
                return f"{endpoint.field} is on loopback"
            datagrams = passed_on.get(pool.name) is Protocol.UDP
            checked = check_port(pool, endpoint, datagrams=datagrams)
            for place in ((endpoint.port, datagrams), *([] if checked is None else [(checked, False)])):
                other = fields.setdefault((endpoint.host, *place), endpoint.field)
                if other != endpoint.field:
                    return f"{other} and {endpoint.field} share port {place[0]} of {endpoint.host}"
    return ""


def l4_pools(plan: Plan) -> dict[str, Protocol]:
    """The pools that L4 routes lead to, and what they speak."""
    found = {}
    for listener in plan.listeners:
        for rule in listener.l4_rules if listener.mode is Mode.L4 else ():
            action = plan.route(rule.route).action
            for target in action.targets if isinstance(action, Forward) else ():
                found[target.pool] = listener.protocol
    return found


def check_port(pool: Pool, endpoint: Endpoint, *, datagrams: bool) -> int | None:
    """Where an endpoint is checked, if that is not where it serves: checks are never datagrams."""
    if pool.active is None:
        return None
    found = pool.active.port or endpoint.port
    return found if datagrams or found != endpoint.port else None


def move_to_loopback(jobs: list[Job]) -> list[Job]:
    """Give every listener and endpoint of each order another free port of 127.0.0.1."""
    ports = FreePorts(avoid={port for job in jobs for port in _named_ports(job.plan)})
    placed = []
    for job in jobs:
        moved = {x.name: ports.take() for x in job.plan.listeners}
        plan = with_ports(job.plan, moved)
        plan = replace(plan, listeners=tuple(_on_this_host(listener) for listener in plan.listeners))
        endpoints = [endpoint for pool in plan.pools for endpoint in pool.endpoints]
        plan = with_endpoints(plan, {x.field: (LOOPBACK, ports.take()) for x in endpoints})
        if plan.metrics is not None:
            plan = replace(plan, metrics=replace(plan.metrics, address=LOOPBACK, port=ports.take()))
        plan = replace(plan, pools=tuple(_checked_where_it_serves(pool) for pool in plan.pools))
        own = {moved[x.name]: x.port for x in job.plan.listeners}
        placed.append(replace(job, plan=plan, own_ports=own))
    return placed


def _on_this_host(listener: Listener) -> Listener:
    """Any other address than "every" may be one that this host lacks."""
    return listener if ip_address(listener.address).is_unspecified else replace(listener, address=LOOPBACK)


def _checked_where_it_serves(pool: Pool) -> Pool:
    """Endpoints that share an address cannot share the port of their checks; stand-ins answer 200."""
    if pool.active is None:
        return pool
    return replace(pool, active=replace(pool.active, port=None, statuses=((200, 299),)))


def restore_port(location: str, own_ports: Mapping[int, int]) -> str:
    """`location` as it would be on the topology's own ports: a redirect names the port of the listener that it came
    from. `own_ports`: the topology's port by the port that serves instead."""
    parts = urlsplit(location)
    served = parts.netloc.rpartition(":")[2]
    if not served.isdecimal() or int(served) not in own_ports:
        return location
    own = own_ports[int(served)]
    host = parts.netloc.removesuffix(f":{served}")
    return urlunsplit(parts._replace(netloc=host if DEFAULT_PORTS.get(parts.scheme) == own else f"{host}:{own}"))


def _named_ports(plan: Plan) -> Iterator[int]:
    """Ports that a Location may hold for another reason than the listener's."""
    yield from (listener.port for listener in plan.listeners)
    for route in plan.routes:
        if isinstance(route.action, Redirect) and route.action.port is not None:
            yield route.action.port
