"""Mirrors: internal locations that receive copies of requests; nginx drops their responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.nginx.names import Names, reference
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.upstream_protocols import upstream_protocol
from lbgen.engines.nginx.view import Check, Location, Proxy, Share, Split, Times
from lbgen.engines.text import Atom

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.nginx.support import Version
    from lbgen.plan.model import Forward, Pool, Route
    from lbgen.plan.policy import Mirror

_TIMEOUT = Atom("1s")
"""Of a copy: nginx starts the next request of the connection after the copy has ended."""
_LEAST = 0.01
"""Percent: nginx accepts two decimals, and no share of 0."""
_UPGRADES = Check(Atom("$upgrade"), 204)  # tunnels are not copied


class MirrorLocations:
    """Builds the locations of mirrors; collects the splits that sample requests."""

    def __init__(self, names: Names, pools: Mapping[str, Pool], version: Version) -> None:
        self.splits: list[Split] = []
        self._names = names
        self._pools = pools
        self._version = version
        self._samples: dict[tuple[str, int], Atom] = {}

    def add_mirrors(
        self, start: Location, route: Route, action: Forward, proxy: Proxy, variant: int
    ) -> tuple[Proxy, tuple[Location, ...]]:
        """`proxy` with its mirrors, and their locations, whose paths with dot segments clients cannot reach."""
        lines, locations = [], []
        for at, mirror in enumerate(action.mirrors):
            path = Atom(f"/../mirror/{route.name}/{variant}/{at}")
            lines.append(directive("mirror", path))
            checks = [_UPGRADES]
            if mirror.percent < 100:
                checks.append(Check(self._unsampled(route, at, mirror), 204))
            protocol = upstream_protocol(self._pools[mirror.pool], self._version)
            copy = replace(
                proxy,
                upstream=Atom(mirror.pool),
                target=proxy.target or Atom("$request_uri"),
                module=Atom(protocol.module),
                scheme=Atom(protocol.scheme),
                times=Times(_TIMEOUT, _TIMEOUT, _TIMEOUT),
                lines=(directive("internal"), *protocol.lines),
                checks=tuple(checks),
                hide=(),
                add=(),
            )
            # The copy shares the variables of the access log with its request, so it sets the same values.
            at_path = Atom(f"= {path.text}")
            locations.append(
                Location(
                    Atom(mirror.field), name=at_path, proxy=copy, log_variables=start.log_variables, route=start.route
                )
            )
        return replace(proxy, mirrors=tuple(lines)), tuple(locations)

    def _unsampled(self, route: Route, at: int, mirror: Mirror) -> Atom:
        """The variable that is 1 for requests that are not sampled."""
        key = (route.name, at)
        if key not in self._samples:
            name = self._names.variable("not_mirrored", f"{route.name} {at}")
            part = f"{min(max(mirror.percent, _LEAST), 100 - _LEAST):.2f}%"
            shares = (Share(Atom(part), Atom("0")), Share(Atom("*"), Atom("1")))
            salt = Atom(f'"${{request_id}}:mirror{at}"')
            self.splits.append(Split(Atom(mirror.field), reference(name), shares, salt))
            self._samples[key] = reference(name)
        return self._samples[key]
