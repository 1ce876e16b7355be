"""Rewrites of path and Host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.quote import Sample
from lbgen.engines.haproxy.statements import Acl, Statement, found, set_var, statement
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Plan

TAIL = "txn.tail"


def tail_statements(route_keys: Iterable[RouteKey], per_route: PerRoute) -> list[Statement]:
    """Store what follows the matched prefix, without its slash, for routes that replace the prefix."""
    depths: dict[int, list[str]] = {}
    for route_key in route_keys:
        if route_key.stripped is not None and route_key.stripped >= 0:
            depths.setdefault(route_key.stripped, []).append(route_key.name)
    return [
        per_route.restrict(set_var(TAIL, f"path,field({depth + 2},/,0)"), keys, f"tail.{depth}")
        for depth, keys in sorted(depths.items())
    ]


def rewrite_statements(route_keys: Iterable[RouteKey], plan: Plan, per_route: PerRoute) -> list[Statement]:
    """Set the path and Host of requests; `tail_statements` come first."""
    paths: dict[str, str] = {}
    before_tail: dict[str, str] = {}
    without_tail: dict[str, str] = {}
    hosts: dict[str, str] = {}
    for route_key in route_keys:
        action = plan.route(route_key.route).action
        if not isinstance(action, Forward) or action.rewrite is None:
            continue
        if action.rewrite.path is not None:
            paths[route_key.name] = action.rewrite.path
        elif action.rewrite.prefix is not None:
            prefix = action.rewrite.prefix.rstrip("/")
            without_tail[route_key.name] = prefix or "/"
            if route_key.stripped is not None:
                before_tail[route_key.name] = prefix
        if action.rewrite.host is not None:
            hosts[route_key.name] = action.rewrite.host

    def set_path(*acls: Acl) -> Statement:
        return statement("http-request set-path", when=acls)

    return [
        *per_route.with_values(set_path(), paths, "path"),
        *per_route.with_values(set_path(found(TAIL)), before_tail, "prefix", Sample(f"var({TAIL})")),
        *per_route.with_values(set_path(~found(TAIL)), without_tail, "bare"),
        *per_route.with_values(statement("http-request set-header Host"), hosts, "host"),
    ]
