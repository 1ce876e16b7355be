"""A plan's L4 listeners -> where connections go, and when they end, as cases for a running engine."""

from __future__ import annotations

from ipaddress import ip_network
from typing import TYPE_CHECKING

from lbgen.conformance.verify.cases import Phase, Planned, around, scripted
from lbgen.plan.model import Forward, Protocol
from lbgen.plan.simulate import Request, simulate_l4

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Listener, Plan

_IDLE, _CONNECT = ("timeouts.idle.l4",), ("timeouts.connect.l4",)


def planned(plan: Plan, listener: Listener, client: str) -> Iterator[Planned]:
    """Cases of one TCP listener; where server names decide, a connection without one is tried only."""
    if listener.protocol is Protocol.UDP:
        return
    for source in _clients(listener, client):
        outcome = simulate_l4(plan, listener.name, None, source)
        pools = [name for name, _ in outcome.pools]
        request = Request(listener=listener.name, client=source)
        told = {"listener": listener.name, "client": source, "pools": pools}
        routes = () if outcome.route is None else (outcome.route,)
        yield _alone(scripted("7.bytes", "bytes_reach", request, told, (), *routes))
        if outcome.route is None:
            continue
        action = plan.route(outcome.route).action
        if not isinstance(action, Forward):
            continue
        times = action.timeouts
        if times.idle:
            for clause, mute, half in (
                ("7.idle", False, False),
                ("7.idle.unanswered", True, False),
                ("7.idle.half-closed", True, True),
            ):
                params = {**told, "within_ms": around(times.idle), "mute": mute, "half": half}
                yield _alone(scripted(clause, "bytes_idle", request, params, _IDLE, *routes))
        if times.connect:
            params = {**told, "within_ms": around(times.connect)}
            one = scripted("7.connect", "bytes_connect", request, params, _CONNECT, *routes)
            yield Planned(one.case, Phase.DROPPED)


def _alone(one: Planned) -> Planned:
    return Planned(one.case, Phase.ALONE)


def _clients(listener: Listener, client: str) -> Iterator[str]:
    """An address of every network that a rule names, and one of none."""
    yield client
    if client.startswith("127."):  # no other address is ours here
        return
    for network in dict.fromkeys(source for rule in listener.l4_rules for source in rule.sources):
        found = ip_network(network)
        if found.version == 4:
            yield str(found[min(7, found.num_addresses - 1)])
