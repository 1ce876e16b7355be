"""Error pages: mappers of the local replies of a listener, and a filter that replaces what endpoints answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged
from lbgen.engines.envoy.basic_auth import named_challenges
from lbgen.engines.envoy.headers import merge_edits
from lbgen.engines.envoy.mutations import SET, escape_format, header_option
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.values import format_shared
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.plan.error_pages import ErrorPage, share_statuses
from lbgen.plan.model import Forward, HeaderEdits, Route

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FILTER = "error-pages"
_CHALLENGE = "challenge"
_METADATA = "lbgen"
_PLAIN = "text/plain"
# gRPC clients take a page for no answer. Neither what a route responds, nor what a service of authentication says, nor
# a page of the filter is Envoy's own.
_OWN = "!(response.code_details in ['direct_response', 'via_upstream', 'ext_authz_denied', ''])"
_NO_GRPC = "!('content-type' in request.headers && request.headers['content-type'].startsWith('application/grpc'))"


def _manager(on: HttpListener) -> dict[str, Data]:
    found: dict[str, Data] = {}
    if mappers := [*_of_routes(on), *_of_listener(on)]:
        note = "Instead of Envoy's own texts, but for gRPC and for what routes respond: the first that holds."
        found["local_reply_config"] = {"mappers": [Commented(note, mappers[0]), *mappers[1:]]}
    if shown := [shared for route in on.routes for shared in _intercepting(on, route)]:
        filters: list[Data] = [extension(_FILTER, "filters.http.custom_response.v3.CustomResponse")]
        if any(401 in statuses for _, statuses in shown):
            filters.append(_save_challenge())
        found["http_filters"] = filters
    return found


def _of_routes(on: HttpListener) -> Iterator[Data]:
    if not on.listener.error_pages and not any(route.error_pages for route in on.routes):
        return
    rules = {rule.route: rule for table in reversed(on.listener.hosts) for rule in reversed(table.rules)}  # the first
    for route in on.routes:
        # Envoy edits local replies of routes that forward alone.
        edits = HeaderEdits() if isinstance(route.action, Forward) else route.response_headers
        pages = on.plan.error_pages(on.listener, route) if edits else route.error_pages
        _, added = merge_edits(HttpRoute(on, rules[route.name], route, None), "response", edits)
        yield from _mappers(on, pages, f"xds.route_name == '{route.name}'", added=added)


def _of_listener(on: HttpListener) -> Iterator[Data]:
    if not on.listener.error_pages:
        return
    if without := [route.name for route in on.routes if not on.plan.error_pages(on.listener, route)]:
        yield {"filter": _holds(f"xds.route_name in {without}")}  # which changes nothing
    yield from _mappers(on, on.listener.error_pages)


def _mappers(
    on: HttpListener, pages: Iterable[ErrorPage], *conditions: str, added: Sequence[Data] = ()
) -> Iterator[Data]:
    for page in pages:  # Envoy takes the first that holds, so that a class may cover what has a page before it
        is_it = f"response.code == {page.first}"
        if page.first != page.last:
            is_it = f"response.code >= {page.first} && response.code <= {page.last}"
        mapper: dict[str, Data] = {"filter": _holds(" && ".join((is_it, *conditions, _OWN, _NO_GRPC)))}
        if page.status is not None:
            mapper["status_code"] = page.status
        if headers := [*added, *(named_challenges(on) if page.covers(401) else ())]:
            mapper["headers_to_add"] = headers
        if isinstance(page.body, str):
            mapper["body"] = {"inline_string": page.body}
        if page.is_dynamic or page.content_type != _PLAIN:
            kind: dict[str, Data] = {} if page.content_type == _PLAIN else {"content_type": page.content_type}
            mapper["body_format_override"] = {**_body_format(on, page), **kind}
        yield Tagged(page.field, mapper)


def _body_format(on: HttpListener, page: ErrorPage) -> dict[str, Data]:
    """The text of a page, or with placeholders its format."""
    if isinstance(page.body, str):
        return {"text_format_source": {"inline_string": "%LOCAL_REPLY_BODY%"}}
    return {"text_format_source": {"inline_string": format_shared(on, page.body)}, "omit_empty_values": True}


def _holds(expression: str) -> Data:
    """A filter by an expression of CEL, which holds for nothing where it asks for what is not there."""
    kind = "access_loggers.filters.cel.v3.ExpressionFilter"
    return {"extension_filter": extension("cel", kind, {"expression": expression})}


def _intercepting(on: HttpListener, route: Route) -> list[tuple[ErrorPage, tuple[int, ...]]]:
    pages = on.plan.error_pages(on.listener, route)
    return [each for each in share_statuses(pages) if each[0].intercept] if pages else []


def _route(at: HttpRoute) -> dict[str, Data]:
    named: dict[str, Data] = {"name": at.route.name} if at.route.error_pages or at.on.listener.error_pages else {}
    if at.forward is None or not (pages := _intercepting(at.on, at.route)):
        return named
    kind = "envoy.extensions.filters.http.custom_response.v3.CustomResponse"
    config = typed(
        kind, {"custom_response_matcher": {"matcher_list": {"matchers": [_matcher(at.on, *each) for each in pages]}}}
    )
    return {**named, "typed_per_filter_config": {_FILTER: config}}


def _matcher(on: HttpListener, page: ErrorPage, statuses: tuple[int, ...]) -> dict[str, Data]:
    status: Data = {"name": "status", "typed_config": typed("envoy.type.matcher.v3.HttpResponseStatusCodeMatchInput")}
    among: dict[str, Data] = {"exact": str(statuses[0])}
    if len(statuses) > 1:
        among = {"safe_regex": {"google_re2": {}, "regex": "|".join(map(str, statuses))}}
    kind = "http.custom_response.local_response_policy.v3.LocalResponsePolicy"
    answer: dict[str, Data] = {"body_format": _body_format(on, page)}
    if isinstance(page.body, str):
        answer = {"body": {"inline_string": page.body}}
    if page.status is not None:
        answer["status_code"] = page.status
    headers: list[Data] = []
    if page.content_type != _PLAIN:
        headers.append(header_option("content-type", escape_format(page.content_type), SET))
    if 401 in statuses:
        headers.append(header_option("www-authenticate", f"%DYNAMIC_METADATA({_METADATA}:{_CHALLENGE})%", SET))
    if headers:
        answer["response_headers_to_add"] = headers
    return {
        "predicate": {"single_predicate": {"input": status, "value_match": among}},
        "on_match": {"action": extension("page", kind, answer)},
    }


def _save_challenge() -> Data:
    """The filter that keeps what a 401 must say of how to log in."""
    rule: Data = {
        "header": "www-authenticate",
        "on_header_present": {"metadata_namespace": _METADATA, "key": _CHALLENGE, "type": "STRING"},
    }
    return extension("challenge", "filters.http.header_to_metadata.v3.Config", {"response_rules": [rule]})


ERROR_PAGES = Contributor(manager=_manager, route=_route)
