"""Move listeners and endpoints to free ports of 127.0.0.1, where they cannot have their own addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from lbgen.conformance.free_ports import FreePorts
from lbgen.conformance.verify.own_addresses import LOOPBACK
from lbgen.plan.forwarding import DEFAULT_PORTS
from lbgen.plan.model import Listener, Plan, Pool, Redirect
from lbgen.plan.overlay import with_endpoints, with_ports
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.conformance.verify.messages import Job


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
