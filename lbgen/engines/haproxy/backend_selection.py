"""Routes that forward -> which backend serves them, splits drawn by weight included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.quote import argument
from lbgen.engines.haproxy.statements import Line, line
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.haproxy.lookup import Lookup
    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.engines.haproxy.statements import Maps
    from lbgen.engines.haproxy.upstreams import Backends
    from lbgen.plan.model import HeaderEdits, Target

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


def choices(route_keys: Mapping[str, RouteKey], lookup: Lookup) -> Iterator[Choice]:
    """Every target that can get a request."""
    for route_key in route_keys.values():
        action = lookup.route(route_key.route).action
        if not isinstance(action, Forward):
            continue
        served = [t for t in action.targets if t.weight or (lookup.pool(t.pool).sticky and len(action.targets) > 1)]
        for number, target in enumerate(served, 1):
            drawn = len(served) > 1
            yield Choice(f"{route_key.name}@{number}" if drawn else route_key.name, route_key, target, drawn)


def draw_lines(drawn: list[Choice], chooser: Chooser, maps: Maps) -> list[Line]:
    """Statements that draw a target for the requests of a split."""
    shares: dict[str, list[Choice]] = {}
    for choice in drawn:
        shares.setdefault(choice.route_key.name, []).append(choice)
    file = maps.file("splits.map", "route and drawn number, as far as it decides -> target")
    for key, group in shares.items():
        total = sum(choice.target.weight for choice in group)
        start = passed = 0
        for choice in group:
            passed += choice.target.weight
            end = round(passed * _DRAWS / total)
            for digits in decimal_prefixes(_DRAWS + start, _DRAWS + end):
                file.add(f"{key}|{digits}", choice.key, choice.target.field)
            start = end
    target = f"var(txn.route),concat(|,txn.drawn),map_beg({file.name})"
    return [
        chooser.only((f"http-request set-var(txn.drawn) rand({_DRAWS}),add({_DRAWS})",), list(shares), "split"),
        line("", f"http-request set-var({TARGET}) {target} if {{ var(txn.drawn) -m found }}"),
    ]


def kept_lines(drawn: list[Choice], lookup: Lookup, maps: Maps) -> list[Line]:
    """Statements that send a request of a split where its sticky cookie says, whatever was drawn."""
    cookies: dict[str, list[tuple[str, str, Choice]]] = {}
    for choice in drawn:
        pool = lookup.pool(choice.target.pool)
        for endpoint in pool.endpoints if pool.sticky is not None else ():
            assert pool.sticky is not None  # noqa: S101  # asked one line above
            kept = (choice.route_key.name, endpoint.cookie_value, choice)
            cookies.setdefault(pool.sticky.cookie, []).append(kept)
    lines = []
    for number, (cookie, found) in enumerate(cookies.items(), 1):
        file = maps.file(f"sticky.{number}.map", f"route and cookie {cookie} -> target")
        seen: set[str] = set()
        for key, value, choice in found:
            if f"{key}|{value}" not in seen:
                seen.add(f"{key}|{value}")
                file.add(f"{key}|{value}", choice.key, choice.target.field)
        kept_in = f"txn.kept_{number}"
        named = Literal(f"req.cook({argument(cookie)})")
        asked = ("{", named, "-m found } { var(txn.drawn) -m found }")
        target = f"var(txn.route),concat(|,{kept_in}),map_str({file.name})"
        lines += [
            line("", f"http-request set-var({kept_in})", named, "if", *asked),
            line("", f"http-request set-var({TARGET}) {target} if {{ var({kept_in}) -m found }}"),
        ]
    return lines


def decimal_prefixes(start: int, end: int) -> Iterator[str]:
    """The fewest decimal prefixes that cover exactly the numbers from `start` up to but not including `end`, all of the
    same number of digits."""
    while start < end:
        step = 1
        while start % (step * 10) == 0 and start + step * 10 <= end:
            step *= 10
        yield str(start // step)
        start += step


def backend_lines(
    chosen: list[Choice],
    answered: Mapping[str, str],
    origins: dict[str, str],
    backends: Backends,
    lookup: Lookup,
    maps: Maps,
) -> list[Line]:
    """`use_backend` statements; `answered` are the backends of routes that answer by themselves."""
    names = {choice.key: backends.of(choice, lookup) for choice in chosen} | dict(answered)
    if len(set(names.values())) == 1:
        return [line("", f"default_backend {next(iter(names.values()))}")]
    file = maps.file("backends.map", "route or target -> backend")
    fields = origins | {choice.key: choice.target.field for choice in chosen}
    for key, name in names.items():
        file.add(key, name, fields.get(key, ""))
    lines = []
    if any(choice.drawn for choice in chosen):
        target = f"%[var({TARGET}),map_str({file.name})]"
        lines.append(line("", f"use_backend {target} if {{ var({TARGET}) -m found }}"))
    if any(not choice.drawn for choice in chosen) or answered:
        lines.append(line("", f"use_backend %[var(txn.route),map_str({file.name})]"))
    return lines


def target_edits(chosen: list[Choice], drawn: bool) -> list[tuple[str, HeaderEdits]]:
    """(key, edits) of the targets that have any of their own."""
    return [(c.key, c.target.request_headers) for c in chosen if c.drawn is drawn and c.target.request_headers]
