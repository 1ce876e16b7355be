"""Tell whether stand-ins can have the topology's own addresses in an isolated network."""

from __future__ import annotations

from ipaddress import ip_address

from lbgen.plan.model import Endpoint, Forward, Mode, Plan, Pool, Protocol

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
