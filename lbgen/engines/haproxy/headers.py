"""Header edits and rewrites of a listener's routes -> statements of its frontend, told apart by the route's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.quote import Sample
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.lookup import Lookup
    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.engines.haproxy.statements import Line
    from lbgen.plan.model import HeaderEdits

TAIL = "txn.tail"


def header_lines(rules: str, edits: Iterable[tuple[str, HeaderEdits]], chooser: Chooser, purpose: str) -> list[Line]:
    """Statements of the rule set `rules` (`http-request`, `http-after-response`) for (key, edits): all removals, then
    all sets, then all additions. One header costs one statement or one lookup, however many routes edit it."""
    removed: dict[str, list[str]] = {}
    replaced: dict[str, dict[str, str]] = {}
    added: dict[tuple[str, int], dict[str, str]] = {}
    for key, edit in edits:
        for name in edit.remove:
            removed.setdefault(name, []).append(key)
        for name, value in edit.set:
            replaced.setdefault(name, {})[key] = value
        nth: dict[str, int] = {}
        for name, value in edit.add:
            nth[name] = nth.get(name, 0) + 1
            added.setdefault((name, nth[name]), {})[key] = value
    numbers = {name: n for n, name in enumerate(dict.fromkeys((*removed, *replaced, *(n for n, _ in added))), 1)}
    lines = [
        chooser.only((f"{rules} del-header", Literal(name)), keys, f"{purpose}.{numbers[name]}.remove")
        for name, keys in removed.items()
    ]
    for name, values in replaced.items():
        lines += chooser.valued((f"{rules} set-header", Literal(name)), values, f"{purpose}.{numbers[name]}.set")
    for (name, n), values in added.items():
        lines += chooser.valued((f"{rules} add-header", Literal(name)), values, f"{purpose}.{numbers[name]}.add.{n}")
    return lines


def tail_lines(route_keys: Iterable[RouteKey], chooser: Chooser) -> list[Line]:
    """Statements that keep what follows the matched prefix, without its slash, for routes that replace the prefix."""
    depths: dict[int, list[str]] = {}
    for route_key in route_keys:
        if route_key.stripped is not None and route_key.stripped >= 0:
            depths.setdefault(route_key.stripped, []).append(route_key.name)
    return [
        chooser.only((f"http-request set-var({TAIL}) path,field({depth + 2},/,0)",), keys, f"tail.{depth}")
        for depth, keys in sorted(depths.items())
    ]


def rewrite_lines(route_keys: Iterable[RouteKey], lookup: Lookup, chooser: Chooser) -> list[Line]:
    """Statements that give requests the path and Host that their route asks for; the tail must have been kept."""
    whole: dict[str, str] = {}
    before_tail: dict[str, str] = {}
    bare: dict[str, str] = {}
    hosts: dict[str, str] = {}
    for route_key in route_keys:
        action = lookup.route(route_key.route).action
        if not isinstance(action, Forward) or action.rewrite is None:
            continue
        if action.rewrite.path is not None:
            whole[route_key.name] = action.rewrite.path
        elif action.rewrite.prefix is not None:
            lead = action.rewrite.prefix.rstrip("/")
            bare[route_key.name] = lead or "/"
            if route_key.stripped is not None:
                before_tail[route_key.name] = lead
        if action.rewrite.host is not None:
            hosts[route_key.name] = action.rewrite.host
    kept = f"{{ var({TAIL}) -m found }}"
    lines = chooser.valued(("http-request set-path",), whole, "path") if whole else []
    if before_tail:
        lines += chooser.valued(("http-request set-path",), before_tail, "prefix", kept, suffix=Sample(f"var({TAIL})"))
    if bare:
        lines += chooser.valued(("http-request set-path",), bare, "bare", f"!{kept}")
    if hosts:
        lines += chooser.valued(("http-request set-header Host",), hosts, "host")
    return lines
