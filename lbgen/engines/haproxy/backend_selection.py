"""Which backend serves a route that forwards; a split draws one of its targets by weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.quote import argument
from lbgen.engines.haproxy.statements import Statement, acl, found, set_var, statement
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.haproxy.maps import Maps
    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import HeaderEdits, Plan, Target

TARGET = "txn.target"
_DRAWS = 1_000_000  # a share is exact to one in a million


@record
class Choice:
    """One target of a route. `key` is what `txn.target` holds when it is drawn by lot (`drawn`), else the name of the
    route key."""

    key: str
    route_key: RouteKey
    target: Target
    drawn: bool


def choices(route_keys: Mapping[str, RouteKey], plan: Plan) -> Iterator[Choice]:
    """Every target that can get a request."""
    for route_key in route_keys.values():
        action = plan.route(route_key.route).action
        if not isinstance(action, Forward):
            continue
        served = [t for t in action.targets if t.weight or (plan.pool(t.pool).sticky and len(action.targets) > 1)]
        for number, target in enumerate(served, 1):
            drawn = len(served) > 1
            yield Choice(f"{route_key.name}@{number}" if drawn else route_key.name, route_key, target, drawn)


def draw_statements(drawn: list[Choice], per_route: PerRoute, maps: Maps) -> list[Statement]:
    """Draw a target for each request of a split."""
    splits: dict[str, list[Choice]] = {}
    for choice in drawn:
        splits.setdefault(choice.route_key.name, []).append(choice)
    file = maps.file("splits.map", "route and drawn number, as far as it decides -> target")
    for key, group in splits.items():
        total = sum(choice.target.weight for choice in group)
        start = weight = 0
        for choice in group:
            weight += choice.target.weight
            end = round(weight * _DRAWS / total)
            for digits in decimal_prefixes(_DRAWS + start, _DRAWS + end):
                file.add(f"{key}|{digits}", choice.key, choice.target.field)
            start = end
    return [
        per_route.restrict(set_var("txn.drawn", f"rand({_DRAWS}),add({_DRAWS})"), list(splits), "split"),
        set_var(TARGET, f"var(txn.route),concat(|,txn.drawn),map_beg({file.name})", [found("txn.drawn")]),
    ]


def sticky_statements(drawn: list[Choice], plan: Plan, maps: Maps) -> list[Statement]:
    """Send a request of a split to the target of its sticky cookie, whatever was drawn."""
    cookies: dict[str, dict[str, Choice]] = {}
    for choice in drawn:
        pool = plan.pool(choice.target.pool)
        if pool.sticky is not None:
            for endpoint in pool.endpoints:
                targets = cookies.setdefault(pool.sticky.cookie, {})
                targets.setdefault(f"{choice.route_key.name}|{endpoint.cookie_value}", choice)
    statements = []
    for number, (cookie, targets) in enumerate(cookies.items(), 1):
        file = maps.file(f"sticky.{number}.map", f"route and cookie {cookie} -> target")
        for key, choice in targets.items():
            file.add(key, choice.key, choice.target.field)
        variable = f"txn.kept_{number}"
        value = Literal(f"req.cook({argument(cookie)})")
        statements += [
            set_var(variable, value, [acl(value, "-m found"), found("txn.drawn")]),
            set_var(TARGET, f"var(txn.route),concat(|,{variable}),map_str({file.name})", [found(variable)]),
        ]
    return statements


def decimal_prefixes(start: int, end: int) -> Iterator[str]:
    """The fewest decimal prefixes that cover exactly the numbers from `start` up to but not including `end`, all of the
    same number of digits."""
    while start < end:
        step = 1
        while start % (step * 10) == 0 and start + step * 10 <= end:
            step *= 10
        yield str(start // step)
        start += step


def use_backend_statements(
    names: Mapping[str, str], chosen: list[Choice], origins: Mapping[str, str], maps: Maps
) -> list[Statement]:
    """`names` are backends by the key of their choice, or by route key for routes without targets."""
    if len(set(names.values())) == 1:
        return [statement("default_backend", next(iter(names.values())))]
    file = maps.file("backends.map", "route or target -> backend")
    fields = {**origins, **{choice.key: choice.target.field for choice in chosen}}
    for key, name in names.items():
        file.add(key, name, fields.get(key, ""))
    drawn = {choice.key for choice in chosen if choice.drawn}
    statements = []
    if drawn:
        statements.append(statement("use_backend", f"%[var({TARGET}),map_str({file.name})]", when=[found(TARGET)]))
    if names.keys() - drawn:
        statements.append(statement("use_backend", f"%[var(txn.route),map_str({file.name})]"))
    return statements


def target_edits(chosen: list[Choice], drawn: bool) -> list[tuple[str, HeaderEdits]]:
    """(key, edits) of the targets that have any of their own."""
    return [(c.key, c.target.request_headers) for c in chosen if c.drawn is drawn and c.target.request_headers]
