"""Mirrors of routes: a Lua filter sends a copy of a request to the backends that these statements name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.engines.haproxy.upstreams import Backends
    from lbgen.plan.model import Plan, Route


def mirror_statements(
    routes: Iterable[tuple[str, Route]], plan: Plan, backends: Backends, per_route: PerRoute
) -> list[Statement]:
    """Store `backend percent` for each mirror of the request's route. `routes` are (key, route)."""
    mirrors = {
        key: " ".join(
            f"{backends.for_mirror(plan.pool(mirror.pool), route.action.timeouts)} {mirror.percent:g}"
            for mirror in route.action.mirrors
        )
        for key, route in routes
        if isinstance(route.action, Forward) and route.action.mirrors
    }
    return per_route.with_values(statement("http-request set-var-fmt(txn.mirrors)"), mirrors, "mirrors")
