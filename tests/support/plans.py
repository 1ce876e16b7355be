"""Plans for tests: one listener on loopback, and what leads to each route."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import lbgen
from lbgen.plan.model import (
    Forward,
    HeaderEdits,
    Listener,
    Match,
    Mode,
    PathKind,
    PathMatch,
    Plan,
    Protocol,
    Target,
    Timeouts,
)
from lbgen.plan.precedence import UnrankedRule, host_tables, rank_rules
from lbgen.plan.tiers import parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.plan.model import Pool, Route

TIMES = Timeouts(1_000, 5_000, 5_000)


def examples() -> dict[str, Plan]:
    """The plan of each example by its folder's name; where it has tiers, of each tier: `hybrid-edge/web`."""
    found = {}
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*/topology.yaml")):
        for tier in parts(lbgen.load(path)):
            name = path.parent.name
            found[f"{name}/{tier.name}" if tier.name else name] = tier.plan
    return found


def by_prefix(port: int, routes: Iterable[Route], pools: Iterable[Pool], **listener: Any) -> Plan:
    """`/NAME` leads to the route of that name, on a listener `web` with these further fields."""
    routes = tuple(routes)
    entries = [
        UnrankedRule(f"{r.name}.0", r.name, 0, None, Match(PathMatch(PathKind.PREFIX, f"/{r.name}")), r.field)
        for r in routes
    ]
    return on_web(entries, routes, pools, port, **listener)


def on_web(
    entries: Iterable[UnrankedRule], routes: Iterable[Route], pools: Iterable[Pool], port: int = 8080, **listener: Any
) -> Plan:
    """`entries` lead to `routes`, on a listener `web` with these further fields."""
    listener = {"address": "127.0.0.1", **listener, "hosts": host_tables(rank_rules(list(entries)))}
    web = Listener("web", port=port, mode=Mode.L7, protocol=Protocol.TCP, field="listeners.web", **listener)
    return Plan("t", (web,), tuple(pools), tuple(routes))


def forward(*pools: str, times: Timeouts = TIMES, **more: Any) -> Forward:
    """To pools of equal weight."""
    return Forward(tuple(Target(p, 1, HeaderEdits(), "") for p in pools), times, **more)


def prefix(path: str, **more: Any) -> Match:
    return Match(PathMatch(PathKind.PREFIX, path), **more)


def exact(path: str, **more: Any) -> Match:
    return Match(PathMatch(PathKind.EXACT, path), **more)
