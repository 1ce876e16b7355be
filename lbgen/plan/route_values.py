"""The values of a route, and the facts of a request that they hold."""

from __future__ import annotations

from collections.abc import Iterable

from lbgen.plan.auth import ForwardAuth
from lbgen.plan.listener import Listener
from lbgen.plan.route import Forward, Route
from lbgen.plan.values import Fact, Placeholder, Value, placeholders_of


def request_values(route: Route) -> list[Value]:
    """The values of request headers that a route and its targets write."""
    edits = [route.request_headers]
    if isinstance(route.action, Forward):
        edits += [target.request_headers for target in route.action.targets]
    return [value for each in edits for _, value in (*each.set, *each.add)]


def answer_values(route: Route) -> list[Value]:
    """The values of responses that a route writes: headers, bodies, addresses of redirects."""
    return [*route.response_headers.values(), *route.action.values()]


def shared_facts(listener: Listener, routes: Iterable[Route]) -> tuple[Placeholder, ...]:
    """The facts that error pages and addresses of logins hold on a listener with these routes, each once and not bound:
    what they are worth depends on no route."""
    pages, logins = {*listener.error_pages}, list[Value]()
    for route in routes:
        pages.update(route.error_pages)
        if isinstance(route.auth, ForwardAuth) and route.auth.redirect_to is not None:
            logins.append(route.auth.redirect_to)
    return tuple(sorted({*placeholders_of(*logins, *(page.body for page in pages))}, key=str))


def route_facts(route: Route) -> set[Placeholder]:
    """The placeholders of a route."""
    values = [*request_values(route), *answer_values(route)]
    return {*placeholders_of(*values)} if values else set()


def has_captures(route: Route) -> bool:
    """Whether some value holds a group of the matched path."""
    return any(each.fact is Fact.CAPTURE for each in route_facts(route))
