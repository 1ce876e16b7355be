"""The pool and upstream of a request: splits, sticky cookies, and the upstreams behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.nginx.headers import header_name
from lbgen.engines.nginx.names import Names, inline, inline_upstream, reference
from lbgen.engines.nginx.strings import EMPTY, text, variables
from lbgen.engines.nginx.upstream_protocols import upstream_protocol
from lbgen.engines.nginx.view import Entry, Header, Map, Share, Split, Text
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Pool, Route, Target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.nginx.sticky import StickyCookies
    from lbgen.engines.nginx.support import Version


class PoolSelection:
    """Upstreams of routes; collects splits, and adds maps to the given list."""

    def __init__(
        self, names: Names, pools: Mapping[str, Pool], maps: list[Map], sticky_cookies: StickyCookies, version: Version
    ) -> None:
        self.splits: list[Split] = []
        self._names = names
        self._pools = pools
        self._maps = maps
        self._sticky_cookies = sticky_cookies
        self._version = version
        self._splits: dict[str, str] = {}
        self._upstreams: dict[str, Atom] = {}
        self._locations: dict[tuple[str, tuple[Atom, ...]], Atom] = {}

    def split_variable(self, route: Route) -> str | None:
        """The variable with the selected target of a split."""
        return self._splits.get(route.name)

    def reachable_targets(self, action: Forward) -> list[Target]:
        """The targets that get requests; a sticky cookie leads to targets of weight 0 as well."""
        if 0 not in [t.weight for t in action.targets]:
            return list(action.targets)
        sticky = any(self._pools[t.pool].sticky for t in action.targets)
        return [t for t in action.targets if t.weight or sticky]

    def routes_by_target(self, route: Route) -> tuple[Route, ...]:
        """One route per target when the targets' protocols differ, else none."""
        action = route.action
        if not isinstance(action, Forward) or len(action.targets) < 2:
            return ()
        targets = self.reachable_targets(action)
        if len({upstream_protocol(self._pools[t.pool], self._version) for t in targets}) < 2:
            return ()
        return tuple(
            replace(route, name=f"{route.name}:{at}", action=replace(action, targets=(replace(target, weight=1),)))
            for at, target in enumerate(targets)
        )

    def target_location(self, route: Route, locations: tuple[Atom, ...]) -> Atom:
        """The variable with the location of the selected target, of one location per target."""
        assert isinstance(route.action, Forward)  # noqa: S101  # only such routes have targets
        self.upstream(route, route.action)
        key = (route.name, locations)
        if key not in self._locations:
            name = self._names.variable("part", route.name)
            values = share_names(self.reachable_targets(route.action))
            entries = tuple(Entry(Literal(v, "key"), at) for v, at in zip(values, locations, strict=True))
            source = text(inline(self._splits[route.name]))
            self._maps.append(Map(Atom(f"{route.field}.forward"), source, reference(name), locations[0], entries))
            self._locations[key] = reference(name)
        return self._locations[key]

    def upstream(self, route: Route, action: Forward) -> Atom:
        """The upstream of a route's first try, a name or a variable."""
        if route.name not in self._upstreams:
            self._upstreams[route.name] = self._select(route, action)
        return self._upstreams[route.name]

    def _select(self, route: Route, action: Forward) -> Atom:
        targets = self.reachable_targets(action)
        weighted = [t for t in targets if t.weight]
        by_weight = Atom(weighted[0].pool) if len(weighted) == 1 else self._split(route, weighted)
        sticky = [(t, p, p.sticky) for t in targets if (p := self._pools[t.pool]).sticky is not None]
        if not sticky or (len(targets) == 1 and self._version.upstreams):
            return by_weight
        # The first cookie that names an endpoint selects the pool, and before 1.30 the upstream.
        requested = variables(self._sticky_cookies.named_endpoint(pool, policy) for _, pool, policy in sticky if policy)

        def by_cookie(kind: str, values: list[Text], default: Text) -> str:
            name = self._names.variable(kind, route.name)
            entries = tuple(
                Entry(Literal(rf"^\n{{{at}}}(?<asked>[^\n]+)", "regex"), value) for at, value in enumerate(values)
            )
            self._maps.append(Map(Atom(f"{route.field}.forward"), requested, reference(name), default, entries))
            return name

        otherwise = text(inline_upstream(by_weight))
        if len(targets) > 1:
            names = dict(zip((t.field for t in targets), share_names(targets), strict=True))
            split = self._splits.get(route.name)
            default = text(inline(split)) if split else text(names[weighted[0].field])
            self._splits[route.name] = by_cookie("chosen", [text(names[t.field]) for t, _, _ in sticky], default)
        if not self._version.upstreams:
            return reference(by_cookie("to", [text(inline("asked"))] * len(sticky), otherwise))
        return reference(by_cookie("pool", [text(t.pool) for t, _, _ in sticky], otherwise))

    def set_cookie_headers(self, route: Route, action: Forward) -> Iterator[Header]:
        """Set-Cookie for each sticky pool of the route."""
        targets = self.reachable_targets(action)
        chosen = self._splits.get(route.name) if len(targets) > 1 else None
        for pool in dict.fromkeys(t.pool for t in targets):
            sticky = self._pools[pool].sticky
            if sticky is not None:
                value = self._sticky_cookies.set_cookie(self._pools[pool], sticky, chosen)
                yield Header(header_name("set-cookie"), value)

    def _split(self, route: Route, targets: list[Target]) -> Atom:
        """The variable with the pool of a weighted random choice."""
        origin = Atom(f"{route.field}.forward")
        name = self._names.variable("split", route.name)
        self._splits[route.name] = name
        values = share_names(targets)
        self.splits.append(Split(origin, reference(name), shares(targets, values)))
        if values == [t.pool for t in targets]:
            return reference(name)
        pool = self._names.variable("pool", route.name)
        entries = tuple(Entry(Literal(v, "key"), text(t.pool)) for v, t in zip(values, targets, strict=True))
        self._maps.append(Map(origin, text(inline(name)), reference(pool), EMPTY, entries))
        return reference(pool)


def share_names(targets: list[Target]) -> list[str]:
    """The values of a split: the pools, numbered when one occurs twice."""
    pools = [t.pool for t in targets]
    return pools if len(set(pools)) == len(pools) else [f"{pool}:{at}" for at, pool in enumerate(pools)]


def shares(targets: list[Target], values: list[str]) -> tuple[Share, ...]:
    """Percentages with two decimals, the finest that nginx accepts; the last target gets the rest."""
    total = sum(t.weight for t in targets)
    out = []
    left = 10_000
    for target, value in zip(targets[:-1], values[:-1], strict=True):
        part = min(max(1, round(target.weight * 10_000 / total)), left - 1)
        left -= part
        out.append(Share(Atom(f"{part / 100:g}%"), Atom(value)))
    return (*out, Share(Atom("*"), Atom(values[-1])))
