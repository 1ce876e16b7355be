"""The middlewares of all routes: equal ones are one, named after what they do and, when only one has it, its route."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.traefik.names import MARK

if TYPE_CHECKING:
    from lbgen.engines.document import Data


class Middlewares:
    """They are used by key, and have names once all are known."""

    def __init__(self, fields: dict[str, str]) -> None:
        self._fields = fields  # the topology field of a route
        self._kinds: dict[str, str] = {}
        self._routes: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}

    def use(self, route: str, kind: str, data: dict[str, Data]) -> tuple[str, ...]:
        """The key of a middleware, as a chain; an empty chain without data. `route`: "" for one of all routes."""
        if not data:
            return ()
        key = json.dumps(data)
        self._kinds.setdefault(key, kind)
        users = self._routes.setdefault(key, [])
        if route not in users:
            users.append(route)
        return (key,)

    def names(self, keys: Iterable[str]) -> list[Data]:
        """The names of a chain; nothing new may be used afterwards."""
        if not self._names:
            self._choose_names()
        return [self._names[key] for key in keys]

    def has(self, part: str) -> bool:
        """Whether a middleware has this setting."""
        return any(f'"{part}"' in key for key in self._routes)

    def build(self) -> dict[str, Data]:
        """The `middlewares` section."""
        if self._routes and not self._names:
            self._choose_names()
        return {
            self._names[key]: Tagged(self._fields.get(routes[0], ""), json.loads(key))
            for key, routes in self._routes.items()
        }

    def _choose_names(self) -> None:
        taken: set[str] = set()
        for key, routes in self._routes.items():
            name = f"{routes[0]}-{self._kinds[key]}" if len(routes) == 1 and routes[0] else self._kinds[key]
            chosen, number = name, 2
            while chosen in taken:
                chosen, number = f"{name}{MARK}{number}", number + 1
            taken.add(chosen)
            self._names[key] = chosen
