"""Links between tiers of local processes: addresses and open connections of a stack behind another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.plan.overlay import with_ports
from lbgen.runtime.common import ports

if TYPE_CHECKING:
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.state import StackState

_LOOPBACK = "127.0.0.1"


def plan_behind_front(plan: Plan, before: StackState | None) -> Plan:
    """`plan` on loopback, on the ports it had in `before`, else on free ones."""
    had = {} if before is None else listener_addresses(before)
    found: dict[str, int] = {}
    for listener in plan.listeners:
        taken = frozenset((*found.values(), *(port for _, port in had.values())))
        found[listener.name] = had[listener.name][1] if listener.name in had else ports.free_port(taken=taken)
    moved = with_ports(plan, found)
    return replace(moved, listeners=tuple(replace(x, address=_LOOPBACK) for x in moved.listeners))


def listener_addresses(state: StackState) -> dict[str, tuple[str, int]]:
    """(address, port) by listener, for this host and for the tier in front."""
    return {each.listener: (each.host, each.port) for engine in state.engines for each in engine.addresses}


def attach_networks(front: StackState, behind: Sequence[StackState]) -> None:
    """Nothing to do: all of them share this host's loopback."""


def connections(state: StackState) -> int:
    """The number of open connections to its listeners."""
    wanted = {port for _, port in listener_addresses(state).values()}
    return sum(ports.open_connections(engine.pid, wanted) for engine in state.engines)
