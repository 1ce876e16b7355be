"""Values with placeholders, which the plugin writes: Traefik's own headers are the same for every request."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.view import Contributor, HttpRoute, find_routes, http_listeners
from lbgen.plan.facts import bind
from lbgen.plan.forwarding import PROXY_FIELDS
from lbgen.plan.model import Forward, HeaderEdits, Listener, Plan, Route
from lbgen.plan.path_conditions import EVERY_PATH, Path
from lbgen.plan.route_values import route_facts, shared_facts
from lbgen.plan.values import Fact, Placeholder, Value, group_number, parts_of, placeholders_of

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_OF_PATH = (Fact.PATH, Fact.URI, Fact.CAPTURE)


def write_shared(value: Value, listener: Listener) -> list[Data]:
    """A text that routes share, as that of an error page, as the plugin reads it."""
    return write_parts(value, EVERY_PATH, "", listener)


def write_parts(value: Value, path: Path, route: str, listener: Listener) -> list[Data]:
    """A value as the plugin reads it: texts and facts take turns."""
    found: list[Data] = []
    for part in parts_of(bind(value, route, listener)):
        if isinstance(part, Placeholder):
            found += [""] * (len(found) % 2 == 0)
            found.append(_name(part, path, listener))
        else:
            found.append(part)
    return found


def _name(placeholder: Placeholder, path: Path, listener: Listener) -> str:
    """A group goes by its number."""
    fact, name = placeholder.fact, placeholder.name
    if fact is Fact.CAPTURE:
        name = str(group_number(path, name) or 0)
    return f"{fact.value}.{name}" if name else fact.value


def path_pattern(path: Path, *values: Value, key: str = "path") -> dict[str, Data]:
    """The setting with the regular expression of a path, where values hold its groups."""
    if not any(each.fact is Fact.CAPTURE for each in placeholders_of(*values)):
        return {}
    return {key: path.value}


def build_values(
    at_path: Path, route: str, listener: Listener, request: HeaderEdits | None, response: HeaderEdits | None
) -> dict[str, Data]:
    """The middleware for edits of which some have placeholders."""
    data: dict[str, Data] = {}
    values: list[Value] = []
    for key, edits in (("request", request), ("response", response)):
        if edits:
            data[key] = [*_edits(at_path, route, listener, edits)]
            values += edits.values()
    return use_plugin("values", data | path_pattern(at_path, *values)) if data else {}


def _edits(path: Path, route: str, listener: Listener, edits: HeaderEdits) -> Iterator[Data]:
    yield from ({"name": name} for name in edits.remove)
    for name, value in edits.set:
        yield {"name": name, "value": write_parts(value, path, route, listener)}
    for name, value in edits.add:
        yield {"name": name, "value": write_parts(value, path, route, listener), "add": True}


def _responses(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    """Before what answers by itself, so that such answers have the headers too."""
    edits = at.route.response_headers
    if edits.is_dynamic:
        yield "values", build_values(at.matched, at.route.name, at.listener, None, edits)


def _requests(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    """Before rewrites, and behind what reads the client's headers."""
    edits = at.route.request_headers
    if at.forward is not None and edits.is_dynamic:
        yield "values", build_values(at.matched, at.route.name, at.listener, edits, None)


def _by_client(_: Plan, route: Route) -> bool:
    return Placeholder(Fact.CLIENT_IP) in route_facts(route)


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in http_listeners(plan):
        routes = find_routes(plan, listener)
        yield from _objections_to_facts(shared_facts(listener, routes), listener, listener.field)
        for route in routes:
            yield from _objections_to_facts(route_facts(route), listener, route.field)
            yield from _objections_to(route)


def _objections_to_facts(facts: Collection[Placeholder], listener: Listener, field: str) -> Iterator[Objection]:
    if listener.trusted_proxies and Placeholder(Fact.CLIENT_PORT) in facts:
        why = "Traefik does not have the port of the connection behind trusted proxies"
        yield Objection(refused(why), field, "values.client_port")
    if listener.trusted_proxies and any(x.fact is Fact.HEADER and x.name in PROXY_FIELDS for x in facts):
        why = "Traefik changes what trusted proxies say before a middleware reads it"
        yield Objection(refused(why), field, "values.header")


def _objections_to(route: Route) -> Iterator[Objection]:
    action = route.action
    if not isinstance(action, Forward):
        return
    rewrites = action.rewrite is not None and (action.rewrite.path is not None or action.rewrite.prefix is not None)
    edited = {name for name, _ in (*route.request_headers.set, *route.request_headers.add)} | {
        *route.request_headers.remove
    }
    for target in action.targets:
        own = {*placeholders_of(*target.request_headers.values())}
        late = [x for x in own if (rewrites and x.fact in _OF_PATH) or (x.fact is Fact.HEADER and x.name in edited)]
        if late:
            why = "Traefik edits the headers of a share behind those of its route, and behind its rewrite"
            yield Objection(refused(why), f"{target.field}.request_headers", f"values.{late[0].fact.value}")


VALUES_OF_RESPONSES = Contributor(middlewares=_responses, by_client=_by_client, objections=_objections)
VALUES_OF_REQUESTS = Contributor(middlewares=_requests)
