"""Advice on routes that are open beside guarded ones."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from heapq import merge
from ipaddress import ip_address
from itertools import product

from msgspec import Struct, field

from lbgen.plan.checks.context import Context, list_names
from lbgen.plan.field_scope import GUARDS
from lbgen.plan.model import HostPattern, Match, Rule
from lbgen.plan.precedence import covering_hosts
from lbgen.plan.shadowing import covers
from lbgen.spec.listener import Access, Listener
from lbgen.spec.route import Route

_EVERY_CLIENT = "0.0.0.0/0"
_Place = tuple[str, "HostPattern | None"]  # a listener, and a host


class _Guarded(Struct, frozen=True):
    """Requests for pools that routes guard: a rule that does and how, and the rank of the first one at each place."""

    rule: Rule
    how: str
    pools: frozenset[str]
    ranks: dict[_Place, int] = field(default_factory=dict)


class _Index:
    """What is guarded, in the order of rules, by what has to be common to it and to a rule that takes its requests."""

    def __init__(self, guarded: Iterable[_Guarded]) -> None:
        self.every = list(guarded)
        self._numbers: dict[Hashable, list[int]] = {}
        for number, each in enumerate(self.every):
            path = each.rule.match.path
            own = [] if path.covers_all else [path]
            for key in (*own, *product(each.pools, dict.fromkeys(path.search_keys()))):
                self._numbers.setdefault(key, []).append(number)

    def candidates(self, rule: Rule, pools: frozenset[str]) -> Iterator[_Guarded]:
        """What is guarded on the path of the rule, or of these pools where its path may cover it."""
        path = rule.match.path
        lists = [self._numbers.get(key, ()) for key in (path, *product(pools, path.index_keys()))]
        return (self.every[number] for number in merge(*lists))


def check(context: Context) -> None:
    """LB298: routes without a guard take requests that another one guards, on another host or listener."""
    indexes = {route.name: index for index, route in enumerate(context.model.routes)}
    guarded = _Index(_guarded(context, indexes).values())
    beside: dict[int, tuple[_Guarded, str, list[str]]] = {}  # by the first open route
    first: dict[str, int] = {}  # the open route at which a guarded one is told
    told = set[int]()
    for rule in context.expanded.rules if guarded.every else ():
        index = indexes[rule.route]
        route = context.model.routes[index]
        if index in told or route.forward is None or guards(route) or is_opened(route):
            continue
        for name in context.expanded.listeners[index]:
            if _is_closed(context.model.listeners[name]):
                continue
            if (by := _guarded_elsewhere(context, rule, name, guarded.candidates(rule, _pools(route)))) is not None:
                told.add(index)
                beside.setdefault(first.setdefault(by.rule.id, index), (by, name, []))[2].append(route.name)
                break
    for index, (by, name, names) in beside.items():
        _tell(context, index, name, by, names)


def guards(route: Route) -> tuple[str, ...]:
    """The fields of a route that keep some clients out."""
    return tuple(key for key in GUARDS if (guard := getattr(route, key)) is not None and not _admits_all(guard))


def is_opened(route: Route) -> bool:
    """Whether it is written that every client may pass: `none`, or every address."""
    return not guards(route) and not route.model_fields_set.isdisjoint(GUARDS)


def _admits_all(guard: object) -> bool:
    return isinstance(guard, Access) and _EVERY_CLIENT in (guard.allow or ()) and not guard.deny


def _is_closed(listener: Listener) -> bool:
    """Whether a listener keeps clients out, whatever its routes do."""
    verified = listener.tls is not None and listener.tls.client is not None and listener.tls.client.verify == "required"
    local = ip_address(listener.address).is_loopback
    return verified or local or listener.access is not None


def _guarded(context: Context, indexes: dict[str, int]) -> dict[tuple[Match, frozenset[str]], _Guarded]:
    """What is guarded, by match and pools."""
    found: dict[tuple[Match, frozenset[str]], _Guarded] = {}
    for rule in context.expanded.rules:
        index = indexes[rule.route]
        route = context.model.routes[index]
        if route.forward is None or not (how := guards(route)):
            continue
        pools = _pools(route)
        for name in context.expanded.listeners[index]:
            each = found.setdefault((rule.match, pools), _Guarded(rule, " and ".join(how), pools))
            each.ranks.setdefault((name, rule.host), rule.rank)
    return found


def _pools(route: Route) -> frozenset[str]:
    return frozenset(target.pool for target in route.forward or ())


def _guarded_elsewhere(context: Context, rule: Rule, listener: str, candidates: Iterable[_Guarded]) -> _Guarded | None:
    """What is guarded on another host or listener of the same tier, and open at this rule on this listener."""
    tier = context.model.listeners[listener].tier
    for each in candidates:
        if not covers(rule.match, each.rule.match):
            continue
        here = (each.ranks.get((listener, host)) for host in covering_hosts(rule.host))
        elsewhere = any(context.model.listeners[name].tier == tier for name, _ in each.ranks)
        if elsewhere and not any(rank is not None and rank < rule.rank for rank in here):
            return each
    return None


def _tell(context: Context, index: int, listener: str, by: _Guarded, names: list[str]) -> None:
    path = by.rule.match.path
    what = "the same requests" if path.covers_all else f"requests for {path.value}"
    (other, host), *_ = by.ranks
    where = f" for host {host}" if host is not None else ""
    message = (
        f'route {list_names(names)} is open on listener "{listener}" and takes {what}, which route "{by.rule.route}" '
        f'guards by {by.how} on listener "{other}"{where}'
    )
    meant = '`auth: none` or access: { allow: ["0.0.0.0/0", "::/0"] }'
    hint = f"write {by.how} here too, as by a policy of both; {meant} says that it is meant to be open"
    context.advise("LB298", f"routes[{index}]", message, hint)
