"""Header edits of routes and targets, and the heads that need no rule but those."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import HeaderEdits, Listener, Plan

_HOP_BY_HOP = ("connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade")
CLAIMS = "^x-(?:forwarded-(?:for|host|port|proto)|request-id)$"  # which only trusted proxies may make
_CLIENT = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-forwarded-proto")


def plain_head(listener: Listener) -> str:
    """A regex of all header lines of a request that no rule on framing or on hop-by-hop headers changes or refuses: one
    Host without oddities, a length that is a number, no control character, no header that a rule removes, and no
    Expect. HAProxy itself does not forward `Connection: keep-alive`.

    Possessive, as HAProxy may have a regex library without a compiler; where the match gives up, the rules are tried.
    """
    removed = ("host", r"connection(?!: [Kk]eep-[Aa]live\r)", *_HOP_BY_HOP[1:], "expect", *_claims(listener))
    underscore = "_" if listener.underscores else ""
    line = (
        rf"(?:(?!(?:{'|'.join(removed)}):)(?!content-length: (?![0-9]{{1,18}}\r))"
        rf"[a-z0-9!#$%&\x27*+.^`|~{underscore}-]++: [^\x00-\x08\x0a-\x1f\x7f]*+\r\n)*+"
    )
    return rf"^{line}host: [A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]++)*+(?::[1-5]?[0-9]{{1,4}})?+\r\n{line}\r\n$"


def dropped_names(listener: Listener, underscores: bool) -> str | None:
    """A regex of the names that a request loses whoever sent it, None for no name; lua.drop_nominated and a rule see to
    the others. `underscores`: names with an underscore are among them."""
    names: list[str] = []
    if not listener.guarantees.connection_options:
        names += (name for name in _HOP_BY_HOP if name not in ("connection", "upgrade"))
    if not listener.trusted_proxies:
        names += _claims(listener)
    parts = [*(["_"] if underscores else []), *([f"^(?:{'|'.join(names)})$"] if names else [])]
    return "|".join(parts) or None


def tested_names(listener: Listener, plan: Plan) -> frozenset[str]:
    """The headers that a rule, a limit or a hash of the listener looks at, in lower case."""
    rules = [rule for table in listener.hosts for rule in table.rules]
    routes = [plan.route(name) for name in {rule.route for rule in rules}]
    keys = [limit.key for route in routes for limit in (route.rate_limit, route.concurrency) if limit is not None]
    forwards = [route.action for route in routes if isinstance(route.action, Forward)]
    keys += (key for each in forwards for target in each.targets if (key := plan.pool(target.pool).hash_key))
    names = {key.name for key in keys if key.kind is KeyKind.HEADER}
    return frozenset(name.lower() for name in names.union(*({h.name for h in r.match.headers} for r in rules)))


def is_claim(name: str) -> bool:
    """Whether the header of that name, in lower case, is one that only trusted proxies may send."""
    return re.match(CLAIMS, name) is not None


def _claims(listener: Listener) -> tuple[str, ...]:
    """What a client may say about itself, where the listener does not replace it."""
    return (*(() if listener.forwarded_headers else _CLIENT), *(() if listener.request_id else ("x-request-id",)))


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
