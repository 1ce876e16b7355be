"""Routes that never serve, in whole or in part, because other routes are tried first."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from lbgen.plan.checks.context import Context, list_names
from lbgen.plan.model import L4Rule, Rule
from lbgen.plan.precedence import covering_hosts
from lbgen.plan.shadowing import ShadowedRule, find_shadowed


def check(context: Context) -> None:
    """LB203 unreachable, LB204 twins, LB252 partly covered, LB253 hidden behind a host's catch-all."""
    model, expanded = context.model, context.expanded
    names = [route.name for route in model.routes]
    if len(set(names)) != len(names):  # LB202 reports it; rules are identified by their route's name
        return
    on = {route.name: expanded.listeners[index] for index, route in enumerate(model.routes)}
    numbers = {name: index for index, name in enumerate(names)}
    by_route: dict[str, list[ShadowedRule]] = {}
    for cover in find_shadowed(expanded.rules, lambda rule: on[rule.route]):
        by_route.setdefault(cover.rule.route, []).append(cover)
    counts: dict[str, int] = {}
    for rule in expanded.rules:
        counts[rule.route] = counts.get(rule.route, 0) + 1
    for route, covers in by_route.items():
        _tell(context, numbers, covers, counts[route], on[route])
    _hidden(context, numbers, on)
    _l4(context, numbers, on)


def _tell(
    context: Context, numbers: dict[str, int], covers: list[ShadowedRule], rules: int, listeners: Sequence[str]
) -> None:
    own = covers[0].rule.route
    field = f"routes[{numbers[own]}]"
    whole = [cover for cover in covers if len(cover.by) == len(listeners)]
    takers = dict.fromkeys(by.route for cover in covers for by in cover.by.values())
    if len(whole) == rules:
        if all(cover.twin for cover in whole) and own not in takers:
            message = f"has the same hosts and match as route {list_names(takers)}"
            context.add("LB204", field, message, "change the match of one, or merge them into one route with weights")
        elif takers.keys() != {own}:
            takers.pop(own, None)
            message = f"is never reached: route {list_names(takers)} takes its requests first"
            context.add("LB203", field, message, _remedy(context, numbers, takers))
        return
    for cover in covers:
        by = next(iter(cover.by.values()))
        if by.route == own and len(cover.by) == len(listeners):
            context.advise("LB252", cover.rule.field, f"adds nothing: {by.field} covers it", "drop one")
            continue
        where = "" if len(cover.by) == len(listeners) else f" on listener {list_names(cover.by)}"
        hosts = "" if cover.rule.host is None else f" for host {cover.rule.host}"
        message = f'serves nothing{hosts}{where}: route "{by.route}" takes these requests first'
        context.advise("LB252", cover.rule.field, message, "drop it there, or give this route a priority")


def _remedy(context: Context, numbers: dict[str, int], takers: Iterable[str]) -> str:
    highest = max(context.model.routes[numbers[name]].priority for name in takers)
    return f"narrow that route, drop this one, or give this one a priority above {highest}"


def _hidden(context: Context, numbers: dict[str, int], on: dict[str, tuple[str, ...]]) -> None:
    """LB253: rules for all hosts that are never tried for a host with a catch-all of its own."""
    walls: dict[str, list[Rule]] = {}
    for rule in context.expanded.rules:
        if rule.host is not None and rule.match.covers_all:
            for name in on[rule.route]:
                walls.setdefault(name, []).append(rule)
    ranks = {name: [rule.rank for rule in rules] for name, rules in walls.items()}
    told = set()
    for rule in context.expanded.rules if walls else ():
        if rule.host is not None or rule.match.covers_all or rule.route in told:
            continue
        for name in on[rule.route]:
            before = walls.get(name, [])[: bisect_left(ranks.get(name, []), rule.rank)]
            if before:
                told.add(rule.route)
                hosts = list_names(dict.fromkeys(str(wall.host) for wall in before))
                message = f'is not tried for host {hosts}: its catch-all route "{before[0].route}" comes first'
                highest = max(context.model.routes[numbers[wall.route]].priority for wall in before)
                hint = f"list the hosts here, or give this route a priority above {highest}"
                context.advise("LB253", f"routes[{numbers[rule.route]}]", message, hint)
                break


def _l4(context: Context, numbers: dict[str, int], on: dict[str, tuple[str, ...]]) -> None:
    taken: dict[tuple[str, object, tuple[str, ...]], L4Rule] = {}
    for rule in context.expanded.l4_rules:
        by = [_l4_taker(taken, name, rule) for name in on[rule.route]]
        for name in on[rule.route]:
            taken.setdefault((name, rule.sni, rule.sources), rule)
        takers = dict.fromkeys(earlier.route for earlier in by if earlier is not None and earlier.route != rule.route)
        if not takers or None in by:
            continue
        field = f"routes[{numbers[rule.route]}]"
        if all(earlier is not None and (earlier.sni, earlier.sources) == (rule.sni, rule.sources) for earlier in by):
            message = f"takes the same connections as route {list_names(takers)}"
            context.add(
                "LB204", field, message, "change hosts or sources of one, or merge them into one route with weights"
            )
        else:
            message = f"is never reached: route {list_names(takers)} takes its connections first"
            context.add("LB203", field, message, _remedy(context, numbers, takers))


def _l4_taker(taken: dict[tuple[str, object, tuple[str, ...]], L4Rule], listener: str, rule: L4Rule) -> L4Rule | None:
    for host in covering_hosts(rule.sni):
        for sources in dict.fromkeys((rule.sources, ())):
            if found := taken.get((listener, host, sources)):
                return found
    return None
