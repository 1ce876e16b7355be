"""Headers that no request keeps, and header edits of routes and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.text import Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import HeaderEdits, Listener

_HOP_BY_HOP = ("keep-alive", "proxy-connection", "te", "trailer", "http2-settings")
CLAIMS = "x-(?:forwarded-(?:for|host|port|proto)|request-id)"  # which only trusted proxies may make


def dropped_names(listener: Listener) -> str:
    """A regex of the names that a request loses whoever sent it: those of one connection, what a client says about
    itself, and with an underscore what some servers take for the name with a hyphen."""
    names = [*_HOP_BY_HOP, *(() if listener.trusted_proxies else (CLAIMS,))]
    return f"{'' if listener.underscores else '_|'}^(?:{'|'.join(names)})$"


def header_statements(
    rules: str, edits: Iterable[tuple[str, HeaderEdits]], per_route: PerRoute, purpose: str
) -> list[Statement]:
    """Statements of the rule set `rules` (`http-request`, `http-after-response`) for (key, edits): all removals, then
    all sets, then all additions. A header takes one statement or one lookup, however many routes edit it."""
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

    def action(verb: str, name: str) -> Statement:
        return statement(f"{rules} {verb}-header", Literal(name))

    statements = [
        per_route.restrict(action("del", name), keys, f"{purpose}.{numbers[name]}.remove")
        for name, keys in removed.items()
    ]
    for name, values in replaced.items():
        statements += per_route.with_values(action("set", name), values, f"{purpose}.{numbers[name]}.set")
    for (name, n), values in added.items():
        statements += per_route.with_values(action("add", name), values, f"{purpose}.{numbers[name]}.add.{n}")
    return statements
