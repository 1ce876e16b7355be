"""Plans for tests on a running engine: one listener on loopback, and a path prefix for each route."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lbgen
from lbgen.plan.model import Listener, Match, Mode, PathKind, PathMatch, Plan, Protocol
from lbgen.plan.precedence import Entry, host_tables, ranked
from lbgen.plan.tiers import parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.plan.model import Pool, Route


def examples() -> dict[str, Plan]:
    """The plan of each example by its folder's name; where it has tiers, of each tier: `hybrid-edge/web`."""
    found = {}
    for path in sorted((Path(__file__).parents[1] / "examples").glob("*/topology.yaml")):
        for tier in parts(lbgen.load(path)):
            name = path.parent.name
            found[f"{name}/{tier.name}" if tier.name else name] = tier.plan
    return found


def by_prefix(port: int, routes: Iterable[Route], pools: Iterable[Pool], **listener: Any) -> Plan:
    """`/NAME` leads to the route of that name, on a listener `web` with these further fields."""
    routes = tuple(routes)
    entries = [
        Entry(f"{r.name}.0", r.name, 0, None, Match(PathMatch(PathKind.PREFIX, f"/{r.name}")), r.field) for r in routes
    ]
    tables = host_tables(ranked(entries))
    web = Listener("web", "127.0.0.1", port, Mode.L7, Protocol.TCP, "listeners.web", hosts=tables, **listener)
    return Plan("t", (web,), tuple(pools), routes)
