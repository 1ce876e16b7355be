"""Expands the routes of a topology into ranked rules, one for each host and match."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.plan.conditions import SUBJECTS, read_conditions
from lbgen.plan.model import HostPattern, L4Rule, Match, Rule
from lbgen.plan.path_conditions import EVERY_PATH, read_path
from lbgen.plan.precedence import UnrankedL4Rule, UnrankedRule, rank_l4_rules, rank_rules

if TYPE_CHECKING:
    from lbgen.spec.match import Match as WrittenMatch
    from lbgen.spec.model import TopologyModel
    from lbgen.spec.route import Route as WrittenRoute

EVERYTHING = Match(EVERY_PATH)
_L4, _L7 = frozenset({"l4"}), frozenset({"l7"})


class ExpandedTopology(Struct, frozen=True, eq=False, dict=True):
    """`listeners[i]` are the names of the existing listeners of route i, in the order of the file."""

    model: TopologyModel
    listeners: tuple[tuple[str, ...], ...]

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """Every L7 rule, ranked."""
        found: list[UnrankedRule] = []
        for index, route in enumerate(self.model.routes):
            if self.is_l7(index):
                found += _entries(index, route)
        return rank_rules(found)

    @cached_property
    def l4_rules(self) -> tuple[L4Rule, ...]:
        """Every L4 rule, ranked."""
        found: list[UnrankedL4Rule] = []
        for index, route in enumerate(self.model.routes):
            if self.is_l4(index):
                found += [
                    UnrankedL4Rule(
                        f"{route.name}.{n}", route.name, route.priority, host, tuple(route.sources or ()), field
                    )
                    for n, (host, field) in enumerate(_hosts(index, route))
                ]
        return rank_l4_rules(found)

    @cached_property
    def used_pools(self) -> frozenset[str]:
        """Names of the pools that a route forwards or mirrors to, that an auth asks, or that answer challenges."""
        challenges = self.model.acme_challenge
        forwarded = forwarded_pools(self.model.routes)
        return forwarded if challenges is None or challenges.forward is None else forwarded | {challenges.forward}

    def is_l4(self, index: int) -> bool:
        """Whether all listeners of the route are L4."""
        return self.modes[index] == _L4

    def is_l7(self, index: int) -> bool:
        """Whether all listeners of the route are L7; LB207 reports a route of both."""
        return self.modes[index] == _L7

    @cached_property
    def modes(self) -> tuple[frozenset[str], ...]:
        """The modes of the listeners of each route."""
        of = {names: frozenset(self.model.listeners[name].mode for name in names) for names in set(self.listeners)}
        return tuple(of[names] for names in self.listeners)


def forwarded_pools(routes: Iterable[WrittenRoute]) -> frozenset[str]:
    """Names of the pools that these routes forward or mirror to, or that their auth asks."""
    routes = list(routes)
    lists = [targets for route in routes for targets in (route.forward, route.mirror) if targets]
    asked = [route.auth.forward.pool for route in routes if route.auth is not None and route.auth.forward is not None]
    return frozenset([*(target.pool for targets in lists for target in targets), *(name for name in asked if name)])


def expand(model: TopologyModel) -> ExpandedTopology:
    """Attach each route to its listeners; a route that names none is attached to every L7 listener."""
    everywhere = tuple(name for name, listener in model.listeners.items() if listener.mode == "l7")
    return ExpandedTopology(
        model,
        tuple(
            everywhere
            if route.listeners is None
            else tuple(dict.fromkeys(name for name in route.listeners if name in model.listeners))
            for route in model.routes
        ),
    )


@lru_cache(maxsize=4096)  # many routes have the same
def host_pattern(text: str) -> HostPattern:
    """`*.shop.example` or `shop.example`."""
    return HostPattern(text.removeprefix("*."), wildcard=text.startswith("*."))


def _hosts(index: int, route: WrittenRoute) -> list[tuple[HostPattern | None, str]]:
    if route.hosts is None:
        return [(None, f"routes[{index}]")]
    return [
        (host_pattern(host), f"routes[{index}].hosts[{route.hosts.index(host)}]") for host in dict.fromkeys(route.hosts)
    ]


def _entries(index: int, route: WrittenRoute) -> list[UnrankedRule]:
    if route.match is None:
        matches = [(EVERYTHING, f"routes[{index}]")]
    else:
        matches = [(resolve_match(match), f"routes[{index}].match[{n}]") for n, match in enumerate(route.match)]
    hosts = [None] if route.hosts is None else [host_pattern(host) for host in dict.fromkeys(route.hosts)]
    name, priority, found = route.name, route.priority, list[UnrankedRule]()
    for match, field in matches:
        for host in hosts:
            found.append(UnrankedRule(f"{name}.{len(found)}", name, priority, host, match, field))
    return found


def resolve_match(written: WrittenMatch) -> Match:
    """The plan's match: the default path written out, conditions of one subject sorted by name."""
    conditions = sorted(
        read_conditions(written), key=lambda each: (SUBJECTS.index(type(each.subject)), each.subject.name)
    )
    return Match(read_path(written) or EVERY_PATH, tuple(conditions))
