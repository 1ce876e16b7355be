"""Which pool a request goes to, and which endpoint of it -> splits, maps and the names of upstreams."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines.nginx.headers import shown
from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.retries import backups, separate_backups
from lbgen.engines.nginx.split_shares import share_names, shares
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.upstream_protocols import transport
from lbgen.engines.nginx.view import Entry, Header, Map, Split
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.sticky import Stickies
    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Pool, Route, Target


class Chooser:
    """Hands out what a route forwards to; splits gather in `splits`, maps in the list that is given."""

    def __init__(
        self, names: Names, pools: Mapping[str, Pool], maps: list[Map], stickies: Stickies, *, old: bool
    ) -> None:
        self.splits: list[Split] = []
        self._names = names
        self._pools = pools
        self._maps = maps
        self._stickies = stickies
        self._old = old
        self._splits: dict[str, str] = {}
        self._upstreams: dict[str, Atom] = {}
        self._by_chance: dict[str, Atom] = {}
        self._goals: dict[tuple[str, tuple[Atom, ...]], Atom] = {}
        self._detours: dict[str, Atom] = {}

    def split_of(self, route: Route) -> str | None:
        """The variable that holds the chosen target of a split."""
        return self._splits.get(route.name)

    def choices(self, action: Forward) -> list[Target]:
        """Those that can get requests: a cookie leads to a pool of any weight."""
        bound = any(self._pools[t.pool].sticky for t in action.targets)
        return [t for t in action.targets if t.weight or bound]

    def parts(self, route: Route) -> tuple[Route, ...]:
        """A route for each target of a split whose pools are spoken to in different ways; none where one will do."""
        action = route.action
        if not isinstance(action, Forward):
            return ()
        targets = self.choices(action)
        if len({transport(self._pools[t.pool], old=self._old) for t in targets}) < 2:
            return ()
        return tuple(
            replace(route, name=f"{route.name}:{at}", action=replace(action, targets=(replace(target, weight=1),)))
            for at, target in enumerate(targets)
        )

    def goal(self, route: Route, places: tuple[Atom, ...]) -> Atom:
        """The variable that holds the place of the target that a split has chosen."""
        assert isinstance(route.action, Forward)  # noqa: S101  # only such routes have targets
        self.upstream(route, route.action)
        key = (route.name, places)
        if key not in self._goals:
            name = self._names.variable("part", route.name)
            shares = share_names(self.choices(route.action))
            entries = tuple(Entry(Literal(share, "key"), place) for share, place in zip(shares, places, strict=True))
            source = text(inline(self._splits[route.name]))
            self._maps.append(Map(Atom(f"{route.field}.forward"), source, Atom(f"${name}"), places[0], entries))
            self._goals[key] = reference(name)
        return self._goals[key]

    def upstream(self, route: Route, action: Forward) -> Atom:
        """The upstream of a route's first try, a name or a variable."""
        if route.name not in self._upstreams:
            self._upstreams[route.name] = self._chosen(route, action)
        return self._upstreams[route.name]

    def _chosen(self, route: Route, action: Forward) -> Atom:
        """The upstream of the first try, a name or a variable."""
        targets = self.choices(action)
        weighted = [t for t in targets if t.weight]
        by_chance = Atom(weighted[0].pool) if len(weighted) == 1 else self._split(route, weighted)
        self._by_chance[route.name] = by_chance
        bound = [(t, p, p.sticky) for t in targets if (p := self._pools[t.pool]).sticky is not None]
        if not bound or (len(targets) == 1 and not self._old):
            return by_chance
        # The first cookie that names an endpoint decides the pool, and for 1.22 the upstream.
        asked = [self._stickies.asked(pool, sticky) for _, pool, sticky in bound if sticky is not None]
        source = text(*(part for name in asked for part in (inline(name), "\n")))

        def first(kind: str, values: list[Text], default: Text) -> str:
            name = self._names.variable(kind, route.name)
            entries = tuple(
                Entry(Literal(rf"^\n{{{at}}}(?<asked>[^\n]+)", "regex"), value) for at, value in enumerate(values)
            )
            self._maps.append(Map(Atom(f"{route.field}.forward"), source, Atom(f"${name}"), default, entries))
            return name

        otherwise = text(inlined(by_chance))
        if len(targets) > 1:
            names = dict(zip((t.field for t in targets), share_names(targets), strict=True))
            split = self._splits.get(route.name)
            default = text(inline(split)) if split else text(names[weighted[0].field])
            chosen = first("chosen", [text(names[t.field]) for t, _, _ in bound], default)
            self._splits[route.name] = chosen
        if self._old:
            return reference(first("to", [text(inline("asked"))] * len(bound), otherwise))
        return reference(first("pool", [text(t.pool) for t, _, _ in bound], otherwise))

    def detour(self, route: Route, action: Forward) -> Atom | None:
        """The upstream for requests whose own has nobody to ask; None when there is no other."""
        self.upstream(route, action)
        targets = self.choices(action)
        pools = [self._pools[t.pool] for t in targets]
        if self._old and any(pool.sticky for pool in pools):
            return self._by_chance[route.name]
        if not any(separate_backups(pool) for pool in pools):
            return None
        names = [backups(p.name) if separate_backups(p) else p.name for p in pools]
        if len(targets) == 1:
            return Atom(names[0])
        if route.name not in self._detours:
            name = self._names.variable("detour", route.name)
            entries = tuple(
                Entry(Literal(share, "key"), text(to)) for share, to in zip(share_names(targets), names, strict=True)
            )
            source = text(inline(self._splits[route.name]))
            self._maps.append(Map(Atom(f"{route.field}.forward"), source, Atom(f"${name}"), EMPTY, entries))
            self._detours[route.name] = reference(name)
        return self._detours[route.name]

    def cookies(self, route: Route, action: Forward) -> Iterator[Header]:
        """Set-Cookie for clients that are to stay where they are."""
        targets = self.choices(action)
        chosen = self._splits.get(route.name) if len(targets) > 1 else None
        for pool in dict.fromkeys(t.pool for t in targets):
            sticky = self._pools[pool].sticky
            if sticky is not None:
                yield Header(shown("set-cookie"), self._stickies.set_cookie(self._pools[pool], sticky, chosen))

    def _split(self, route: Route, targets: list[Target]) -> Atom:
        """A variable that holds the pool of this request."""
        origin = Atom(f"{route.field}.forward")
        name = self._names.variable("split", route.name)
        self._splits[route.name] = name
        values = share_names(targets)
        self.splits.append(Split(origin, Atom(f"${name}"), shares(targets, values)))
        if values == [t.pool for t in targets]:
            return reference(name)
        pool = self._names.variable("pool", route.name)
        entries = tuple(Entry(Literal(v, "key"), text(t.pool)) for v, t in zip(values, targets, strict=True))
        self._maps.append(Map(origin, text(inline(name)), Atom(f"${pool}"), EMPTY, entries))
        return reference(pool)


def inlined(upstream: Atom) -> str | Atom:
    """A name or a variable, as part of a text."""
    return inline(upstream.text[1:]) if upstream.text.startswith("$") else upstream.text
