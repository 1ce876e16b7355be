"""The pool and upstream of a request: splits, sticky cookies, and the upstreams behind them."""

from __future__ import annotations

from msgspec.structs import replace

from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import inline, inline_upstream, reference
from lbgen.engines.nginx.statements import Entry, Share, Split, Text
from lbgen.engines.nginx.sticky import named_endpoint
from lbgen.engines.nginx.strings import EMPTY, text, variables
from lbgen.engines.nginx.upstream_protocols import upstream_protocol
from lbgen.engines.nginx.view import HttpBlock
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Route, Target


def routes_by_target(on: HttpBlock, route: Route) -> tuple[Route, ...]:
    """One route per target when the targets' protocols differ, else none."""
    action = route.action
    if not isinstance(action, Forward) or len(action.targets) < 2:
        return ()
    targets = on.reachable_targets(action)
    if len({upstream_protocol(on.plan.pool(t.pool), on.version) for t in targets}) < 2:
        return ()
    return tuple(
        replace(route, name=f"{route.name}:{at}", action=replace(action, targets=(replace(target, weight=1),)))
        for at, target in enumerate(targets)
    )


def target_location(on: HttpBlock, route: Route, locations: tuple[Atom, ...]) -> Atom:
    """The variable with the location of the selected target, of one location per target."""
    assert isinstance(route.action, Forward)  # noqa: S101  # only such routes have targets
    name, is_new = on.definitions.named("part", route.name, route.name, locations)
    if is_new:
        values = share_names(on.reachable_targets(route.action))
        entries = (Entry(Literal(v, "key"), at) for v, at in zip(values, locations, strict=True))
        source = text(inline(on.splits[route.name]))
        _define(on, route, name, source, *entries, default=locations[0])
    return reference(name)


def select_upstream(on: HttpBlock, route: Route, action: Forward) -> Atom:
    """The upstream of a route's first try, a name or a variable."""
    if route.name not in on.upstreams:
        on.upstreams[route.name] = _select(on, route, action)
    return on.upstreams[route.name]


def _select(on: HttpBlock, route: Route, action: Forward) -> Atom:
    targets = on.reachable_targets(action)
    weighted = [t for t in targets if t.weight]
    by_weight = Atom(weighted[0].pool) if len(weighted) == 1 else _split(on, route, weighted)
    pools = ((t, on.plan.pool(t.pool)) for t in targets)
    sticky = [(t, pool, pool.sticky) for t, pool in pools if pool.sticky is not None]
    if not sticky or (len(targets) == 1 and on.version.upstreams):
        return by_weight
    # The first cookie that names an endpoint selects the pool, and before 1.30 the upstream.
    requested = variables([named_endpoint(on, pool, policy) for _, pool, policy in sticky])

    def by_cookie(kind: str, values: list[Text], default: Text) -> str:
        name = on.definitions.names.variable(kind, route.name)
        regexes = (Literal(rf"^\n{{{at}}}(?<asked>[^\n]+)", "regex") for at in range(len(values)))
        _define(on, route, name, requested, *map(Entry, regexes, values), default=default)
        return name

    otherwise = text(inline_upstream(by_weight))
    if len(targets) > 1:
        names = dict(zip((t.field for t in targets), share_names(targets), strict=True))
        split = on.splits.get(route.name)
        default = text(inline(split)) if split else text(names[weighted[0].field])
        on.splits[route.name] = by_cookie("chosen", [text(names[t.field]) for t, _, _ in sticky], default)
    if not on.version.upstreams:
        return reference(by_cookie("to", [text(inline("asked"))] * len(sticky), otherwise))
    return reference(by_cookie("pool", [text(t.pool) for t, _, _ in sticky], otherwise))


def _split(on: HttpBlock, route: Route, targets: list[Target]) -> Atom:
    """The variable with the pool of a weighted random choice."""
    name = on.splits[route.name] = on.definitions.names.variable("split", route.name)
    values = share_names(targets)
    split = Split(Atom(f"{route.field}.forward"), reference(name), shares(targets, values))
    on.definitions.add(Section.TARGETS, split)
    if values == [t.pool for t in targets]:
        return reference(name)
    pool = on.definitions.names.variable("pool", route.name)
    entries = (Entry(Literal(v, "key"), text(t.pool)) for v, t in zip(values, targets, strict=True))
    _define(on, route, pool, text(inline(name)), *entries)
    return reference(pool)


def _define(
    on: HttpBlock, route: Route, name: str, source: Text, *entries: Entry, default: Text | Atom = EMPTY
) -> None:
    on.definitions.map(Section.TARGETS, name, source, *entries, default=default, origin=f"{route.field}.forward")


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
