"""Routes and pools of a plan by name, in constant time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan, Pool, Route


class Lookup:
    """Finds what `plan` names; KeyError for an unknown name."""

    def __init__(self, plan: Plan) -> None:
        self._routes = {route.name: route for route in plan.routes}
        self._pools = {pool.name: pool for pool in plan.pools}

    def route(self, name: str) -> Route:
        """The route with that name."""
        return self._routes[name]

    def pool(self, name: str) -> Pool:
        """The pool with that name."""
        return self._pools[name]
