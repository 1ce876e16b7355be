"""CORS: Envoy's own filter, and the headers of endpoints that it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.envoy.matching import escape_regex, regex
from lbgen.engines.envoy.mutations import APPEND, header_option
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute, http_routes
from lbgen.plan.model import Forward, Plan
from lbgen.plan.policy import Cors, Origin

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FILTER = "cors"
# What a page may always send (Fetch, "CORS-safelisted").
_METHODS = ("GET", "HEAD", "POST")
_ALLOW = "access-control-allow-"
# Headers of an endpoint's response that an origin gets from the filter alone.
_DROPPED = (
    *(f"{_ALLOW}{what}" for what in ("origin", "methods", "headers", "credentials", "private-network")),
    "access-control-expose-headers",
    "access-control-max-age",
)


def _manager(on: HttpListener) -> dict[str, Data]:
    """The filter; it does nothing on routes without a policy."""
    if all(route.cors is None for route in on.routes):
        return {}
    return {"http_filters": [extension(_FILTER, "filters.http.cors.v3.Cors")]}


def _route(at: HttpRoute) -> dict[str, Data]:
    cors = at.route.cors
    if cors is None:
        return {}
    return {
        **({} if at.forward is None else {"response_headers_to_remove": list(_DROPPED)}),
        "response_headers_to_add": [header_option("vary", "Origin", APPEND)],  # Envoy's filter leaves it out
        "typed_per_filter_config": {_FILTER: _policy(cors)},
    }


def _policy(cors: Cors) -> dict[str, Data]:
    """The policy of a route: it answers each preflight, and adds headers to responses for allowed origins."""
    found: dict[str, Data] = {
        "allow_origin_string_match": [_match(origin) for origin in cors.origins],
        "allow_methods": ", ".join(cors.methods or _METHODS),
        "forward_not_matching_preflights": False,
    }
    if cors.headers:
        found["allow_headers"] = ", ".join(cors.headers)
    if cors.expose_headers:
        found["expose_headers"] = ", ".join(cors.expose_headers)
    if cors.max_age is not None:
        found["max_age"] = str(cors.max_age)
    if cors.credentials:
        found["allow_credentials"] = True
    return typed("envoy.extensions.filters.http.cors.v3.CorsPolicy", found)


def _match(origin: Origin) -> dict[str, Data]:
    if origin.any or origin.is_exact:
        return {"exact": origin.text}
    return regex(origin.pattern(escape_regex))


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for route, _listeners in http_routes(plan):
        if route.cors is not None and not isinstance(route.action, Forward):
            note = (
                "Envoy's CORS filter passes over routes that answer by themselves; write these headers in the response"
            )
            yield Objection(refused(note), f"{route.field}.cors", "route.cors")
        edits = route.response_headers
        if route.cors is not None and (names := dict.fromkeys(name for name, _ in (*edits.set, *edits.add))):
            note = "the answer to a preflight lacks the route's response_headers"
            shows = {"route.cors.routes": tuple(f"header {name}" for name in names)}
            yield Objection(habit(note, shows), f"{route.field}.cors", "route.cors")


CORS = Contributor(manager=_manager, route=_route, objections=_objections)
