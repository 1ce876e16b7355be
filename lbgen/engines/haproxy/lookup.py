"""A plan's routes and pools by name, as a dictionary each: a plan of a thousand routes is asked for them often."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan, Pool, Route


class Lookup:
    """Looks up what `plan` names; KeyError when there is none."""

    def __init__(self, plan: Plan) -> None:
        self._routes = {route.name: route for route in plan.routes}
        self._pools = {pool.name: pool for pool in plan.pools}

    def route(self, name: str) -> Route:
        """The route of that name."""
        return self._routes[name]

    def pool(self, name: str) -> Pool:
        """The pool of that name."""
        return self._pools[name]
