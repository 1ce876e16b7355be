"""Rewrites of path and Host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.text import Literal
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Plan


def first_segments(count: int, with_slash: bool) -> str:
    """A regex that finds the first segments of a path, and with `with_slash` the slash behind them."""
    return "^" + "/[^/?]*" * count + "/?" * with_slash


def rewrite_statements(route_keys: Iterable[RouteKey], plan: Plan, per_route: PerRoute) -> list[Statement]:
    """Set the path and Host of requests."""
    paths: dict[str, str] = {}
    prefixes: dict[tuple[int, bool], dict[str, str]] = {}
    hosts: dict[str, str] = {}
    for route_key in route_keys:
        action = plan.route(route_key.route).action
        if not isinstance(action, Forward) or action.rewrite is None:
            continue
        if action.rewrite.path is not None:
            paths[route_key.name] = action.rewrite.path
        elif action.rewrite.prefix is not None:
            prefix = action.rewrite.prefix.rstrip("/") or "/"
            if route_key.stripped is None:
                paths[route_key.name] = prefix
            else:
                prefixes.setdefault((route_key.stripped, prefix == "/"), {})[route_key.name] = prefix
        if action.rewrite.host is not None:
            hosts[route_key.name] = action.rewrite.host
    statements = per_route.with_values(statement("http-request set-path"), paths, "path")
    for (stripped, is_root), values in sorted(prefixes.items()):
        replace = statement("http-request replace-path", Literal(f"{first_segments(stripped, is_root)}(.*)"))
        purpose = f"prefix.{stripped}{'.root' * is_root}"
        statements += per_route.with_values(replace, values, purpose, ["\\1"])
    return [*statements, *per_route.with_values(statement("http-request set-header Host"), hosts, "host")]
