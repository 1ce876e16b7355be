"""Mirrors: internal locations that receive copies of requests; nginx drops their responses."""

from __future__ import annotations

from msgspec.structs import replace

from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import reference
from lbgen.engines.nginx.statements import Check, Line, Location, Proxy, Share, Split, Times
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.upstream_protocols import upstream_protocol
from lbgen.engines.nginx.view import Contributor, HttpRoute
from lbgen.engines.text import Atom
from lbgen.plan.model import Forward
from lbgen.plan.policy import Mirror

_TIMEOUT = Atom("1s")
"""Of a copy: nginx starts the next request of the connection after the copy has ended."""
_LEAST = 0.01
"""Percent: nginx accepts two decimals, and no share of 0."""
_UPGRADES = Check(Atom("$upgrade"), 204)  # tunnels are not copied


def _copies(
    at: HttpRoute, action: Forward, start: Location, proxy: Proxy, number: int
) -> tuple[list[Line], list[Location]]:
    """The locations of mirrors, whose paths with dot segments clients cannot reach."""
    lines: list[Line] = []
    locations: list[Location] = []
    for index, mirror in enumerate(action.mirrors):
        path = Atom(f"/../mirror/{at.route.name}/{number}/{index}")
        lines.append(directive("mirror", path))
        checks = [_UPGRADES]
        if mirror.percent < 100:
            checks.append(Check(_unsampled(at, index, mirror), 204))
        protocol = upstream_protocol(at.on.plan.pool(mirror.pool), at.on.version)
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
        name, log = Atom(f"= {path.text}"), start.log_variables
        locations.append(Location(Atom(mirror.field), name=name, proxy=copy, log_variables=log, route=start.route))
    return lines, locations


def _unsampled(at: HttpRoute, index: int, mirror: Mirror) -> Atom:
    """The variable that is 1 for requests that are not sampled."""
    name, is_new = at.on.definitions.named("not_mirrored", f"{at.route.name} {index}", at.route.name, index)
    if is_new:
        part = f"{min(max(mirror.percent, _LEAST), 100 - _LEAST):.2f}%"
        shares = (Share(Atom(part), Atom("0")), Share(Atom("*"), Atom("1")))
        salt = Atom(f'"${{request_id}}:mirror{index}"')
        at.on.definitions.add(Section.MIRRORS, Split(Atom(mirror.field), reference(name), shares, salt))
    return reference(name)


MIRRORS = Contributor(copies=_copies)
