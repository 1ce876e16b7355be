"""Copies of requests -> internal locations that nginx asks beside the endpoint; their answers are dropped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import reference
from lbgen.engines.nginx.strings import EMPTY
from lbgen.engines.nginx.upstream_protocols import transport
from lbgen.engines.nginx.view import Check, Line, Location, Share, Split, Times
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Proxy
    from lbgen.plan.model import Forward, Pool, Route
    from lbgen.plan.policy import Mirror

_PATIENCE = Atom("1s")
"""How long a copy may take: nginx does not begin the next request of a connection before."""
_WHOLE = 100
_UPGRADES = Check(Atom("$upgrade"), 204, EMPTY)  # a tunnel has no copy


class Mirrors:
    """Makes the locations; the chances gather in `splits`."""

    def __init__(self, names: Names, pools: Mapping[str, Pool], *, old: bool) -> None:
        self.splits: list[Split] = []
        self._names = names
        self._pools = pools
        self._old = old
        self._chances: dict[tuple[str, int], Atom] = {}

    def of(
        self, start: Location, route: Route, action: Forward, proxy: Proxy, variant: int
    ) -> tuple[Proxy, tuple[Location, ...]]:
        """`proxy` with its copies ordered, and the locations that make them. No client can ask for a path with dots."""
        lines, found = [], []
        for at, mirror in enumerate(action.mirrors):
            path = Atom(f"/../mirror/{route.name}/{variant}/{at}")
            lines.append(Line(Atom("mirror"), (path,)))
            checks = [_UPGRADES]
            if mirror.percent < _WHOLE:
                checks.append(Check(self._left_out(route, at, mirror), 204, EMPTY))
            way = transport(self._pools[mirror.pool], old=self._old)
            copy = replace(
                proxy,
                upstream=Atom(mirror.pool),
                target=proxy.target or Atom("$request_uri"),
                kind=Atom(way.kind),
                scheme=Atom(way.scheme),
                times=Times(_PATIENCE, _PATIENCE, _PATIENCE),
                lines=(Line(Atom("internal"), ()), *way.lines),
                checks=tuple(checks),
                hide=(),
                add=(),
                on_failure=None,
                tunnel=None,
            )
            # A copy clears the variables of the access log, which it shares with its request.
            made = Location(Atom(mirror.field), name=Atom(f"= {path.text}"), proxy=copy, logged=start.logged)
            found.append(made)
        return replace(proxy, mirrors=tuple(lines)), tuple(found)

    def _left_out(self, route: Route, at: int, mirror: Mirror) -> Atom:
        """The variable that is 1 for requests that are not copied."""
        key = (route.name, at)
        if key not in self._chances:
            name = self._names.variable("not_mirrored", f"{route.name} {at}")
            part = f"{mirror.percent:.2f}%"
            shares = (Share(Atom(part), Atom("0")), Share(Atom("*"), Atom("1")))
            salt = Atom(f'"${{request_id}}:mirror{at}"')
            self.splits.append(Split(Atom(mirror.field), Atom(f"${name}"), shares, salt))
            self._chances[key] = reference(name)
        return self._chances[key]
