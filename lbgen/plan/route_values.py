"""The values of a route, and the facts of a request that they hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.plan.values import Fact, Placeholder, Value, bind, placeholders_of

if TYPE_CHECKING:
    from lbgen.plan.listener import Listener
    from lbgen.plan.route import HeaderEdits, Route


def bind_edits(edits: HeaderEdits, route: str, listener: Listener) -> HeaderEdits:
    """The same for all values of `edits`."""
    if not edits.is_dynamic:
        return edits
    return replace(
        edits,
        set=tuple((name, bind(value, route, listener)) for name, value in edits.set),
        add=tuple((name, bind(value, route, listener)) for name, value in edits.add),
    )


def request_values(route: Route) -> Iterator[Value]:
    """The values of request headers that a route and its targets write."""
    for edits in (route.request_headers, *(x.request_headers for x in getattr(route.action, "targets", ()))):
        yield from edits.values()


def answer_values(route: Route) -> Iterator[Value]:
    """The values of responses that a route writes: headers, bodies, addresses of redirects."""
    yield from route.response_headers.values()
    yield from route.action.values()


def route_facts(route: Route) -> set[Placeholder]:
    """The placeholders of a route."""
    return {*placeholders_of(*request_values(route), *answer_values(route))}


def has_captures(route: Route) -> bool:
    """Whether some value holds a group of the matched path."""
    return any(each.fact is Fact.CAPTURE for each in route_facts(route))
