"""One rule and its route -> one Envoy route: what it matches, where it leads, which headers change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.cors import DROPPED, answers, preflights
from lbgen.engines.envoy.durations import duration
from lbgen.engines.envoy.endpoint_slots import PLACES, bounded_pools, places_switch
from lbgen.engines.envoy.forwarded_headers import KEPT_PROTO, PROTO
from lbgen.engines.envoy.headers import CONTENT_TYPE, late_edits, merged, request_edits, response_edits, switched_edits
from lbgen.engines.envoy.matching import cookie_value, header_value, path_literal, path_match, query_value, regex
from lbgen.engines.envoy.mirrors import kept_headers
from lbgen.engines.envoy.per_route import admission, metadata, switches
from lbgen.engines.envoy.retries import LONG, retry_groups, sent_again
from lbgen.engines.envoy.sticky import REMOVED, owners, sticky_pools
from lbgen.engines.envoy.timeouts import HEAD_ONLY, IS_HEAD_ONLY, SWITCHED_ON, silences
from lbgen.engines.envoy.upstreams import Demand, cluster_name, demand
from lbgen.plan.model import Forward, HeaderEdits, PathKind, Redirect, Respond

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import HostPattern, Listener, Match, PathMatch, Rewrite, Route, Rule, Target
    from lbgen.plan.policy import Mirror

REDIRECT_HOST = "redirect-host"  # the Lua filter that makes a request's host fit for a redirect
_PER_FILTER = "typed_per_filter_config"
_TUNNEL: dict[str, Data] = {"name": "upgrade", "string_match": {"exact": "websocket", "ignore_case": True}}
_OWN_HOST: dict[str, Data] = {
    "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.LuaPerRoute",
    "filter_context": {"redirect": True},
}
_PREFLIGHT = Respond(204, "", ())
_ANY: tuple[list[dict[str, Data]], list[dict[str, Data]]] = ([], [])
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REDIRECT_CODES = {
    301: "MOVED_PERMANENTLY",
    302: "FOUND",
    303: "SEE_OTHER",
    307: "TEMPORARY_REDIRECT",
    308: "PERMANENT_REDIRECT",
}


@dataclass(frozen=True, slots=True)
class _Condition:
    """What a request must have beyond the rule's own match."""

    headers: list[dict[str, Data]] = field(default_factory=list)
    cookies: list[dict[str, Data]] = field(default_factory=list)
    tunnel: bool = False


def build_routes(rule: Rule, route: Route, listener: Listener, clusters: Clusters) -> list[Tagged]:
    """The Envoy routes of `rule`, in order: what differs by method, origin or cookie has one of its own."""
    shared: dict[str, Data] = {"name": route.name} if listener.access_log else {}
    match = build_match(rule.match)
    built: list[dict[str, Data]] = []
    if route.cors is not None and (not rule.match.methods or "OPTIONS" in rule.match.methods):
        built += [
            {
                "match": _narrowed(match, asked),
                "direct_response": {"status": 204},
                **_with_filters(_made(replace(route, action=_PREFLIGHT), headers), admission(route)),
            }
            for asked, headers in preflights(route.cors)
        ]
    kinds = answers(route.cors) if route.cors is not None else iter([_ANY])
    for asked, headers in kinds:
        for condition, action in _actions(rule, route, listener, clusters):
            narrowed = _narrowed(_narrowed(match, asked), condition.headers, condition.cookies)
            own = action.pop(_PER_FILTER, {})
            response = _response(route, headers) if isinstance(route.action, Forward) else _made(route, headers)
            response = _with_filters(response, {**switches(route, clusters, tunnel=condition.tunnel), **_mapping(own)})
            built.append({"match": narrowed, **metadata(route), **action, **response})
    return [Tagged(rule.field, {**shared, **each}) for each in built]


def _actions(
    rule: Rule, route: Route, listener: Listener, clusters: Clusters
) -> Iterator[tuple[_Condition, dict[str, Data]]]:
    match route.action:
        case Forward():
            yield from _forwards(route.action, rule, route, listener, clusters)
        case Redirect():
            own: dict[str, Data] = {"redirect": _redirect(route.action, rule, listener)}
            if needs_request_host(rule, route):
                own[_PER_FILTER] = {REDIRECT_HOST: _OWN_HOST}
            yield _Condition(), own
        case Respond():
            yield _Condition(), {"direct_response": _respond(route.action)}
        case _:
            assert_never(route.action)


def _forwards(
    forward: Forward, rule: Rule, route: Route, listener: Listener, clusters: Clusters
) -> Iterator[tuple[_Condition, dict[str, Data]]]:
    for everything, headers in retry_groups(forward, rule.match.methods):
        bound = sent_again(forward, everything=everything)
        short = LONG not in headers  # a body that is long is there
        for target, cookie in (*owners(forward, clusters.pools), (None, None)):
            to = forward if target is None else replace(forward, targets=(replace(target, weight=1),))
            action, edits = _forward(to, rule, route, clusters)
            cookies = [] if cookie is None else [cookie]
            pools = [clusters.pools[each.pool] for each in to.targets if each.weight]
            clocks = silences(forward, pools, listener.timeouts.body, everything=everything)
            times = forward.timeouts
            if short and (clocks.others != times.idle or times.request or forward.buffering.request):
                tunnel = {**action, **clocks.policy, "idle_timeout": duration(times.idle)}
                yield _Condition([*headers, _TUNNEL], cookies, tunnel=True), {"route": tunnel, **edits}
            if times.request:
                action["max_stream_duration"] = {"max_stream_duration": duration(times.request)}
            if short and not clocks.alike:
                alone = {**action, **clocks.policy, "idle_timeout": duration(clocks.head_only)}
                yield _Condition([*headers, IS_HEAD_ONLY], cookies), {"route": alone, **edits, **bound}
                edits = _with_filters(edits, {HEAD_ONLY: SWITCHED_ON})
            whole = {**action, **clocks.policy, "idle_timeout": duration(clocks.others)}
            yield _Condition(headers, cookies), {"route": whole, **edits, **bound}


def _response(route: Route, cors: list[dict[str, Data]]) -> dict[str, Data]:
    """The fields for edits of an endpoint's answer: those of CORS, then the route's own."""
    found = response_edits(route.response_headers)
    if route.cors is not None:
        found["response_headers_to_remove"] = [*DROPPED, *_listed(found.get("response_headers_to_remove"))]
        if added := [*cors, *_listed(found.get("response_headers_to_add"))]:
            found["response_headers_to_add"] = added
    return found


def _made(route: Route, cors: list[dict[str, Data]]) -> dict[str, Data]:
    """The fields for edits of an answer of the route's own.

    Envoy shows them on that answer only; where a policy may refuse a request, a filter edits whatever is answered.
    """
    own = HeaderEdits()
    if isinstance(route.action, Respond):
        # Envoy would add a Location of its own.
        status = route.action.status
        removed = ("location",) if status == HTTPStatus.CREATED or 300 <= status < 400 else ()
        own = HeaderEdits(set=route.action.headers, remove=removed)
    if not guarded(route):
        found = response_edits(own, route.response_headers)
        if cors:
            found["response_headers_to_add"] = [*cors, *_listed(found.get("response_headers_to_add"))]
        return found
    removed_names, added = merged(route.response_headers)
    found = response_edits(own)
    late = [*late_edits(found), *({"remove": name} for name in removed_names)]
    late += [{"append": each} for each in (*cors, *added)]
    return {**found, **switched_edits(late)} if late else found


def guarded(route: Route) -> bool:
    """Whether a policy may refuse requests of the route."""
    return any(p is not None for p in (route.access, route.rate_limit, route.concurrency, route.max_body))


def _listed(data: Data) -> list[Data]:
    return list(data) if isinstance(data, list) else []


def _mapping(data: Data) -> Mapping[str, Data]:
    return data if isinstance(data, dict) else {}


def _with_filters(fields: dict[str, Data], more: Mapping[str, Data]) -> dict[str, Data]:
    """`fields` of a route with `more` said to filters."""
    said = {**more, **_mapping(fields.get(_PER_FILTER, {}))}
    return {**fields, _PER_FILTER: said} if said else fields


def _narrowed(
    match: Mapping[str, Data], headers: Sequence[dict[str, Data]], cookies: Sequence[dict[str, Data]] = ()
) -> dict[str, Data]:
    """`match` with further conditions."""
    found = dict(match)
    if headers:
        found["headers"] = [*_listed(match.get("headers")), *headers]
    if cookies:
        found["cookies"] = [*_listed(match.get("cookies")), *cookies]
    return found


def build_match(match: Match) -> dict[str, Data]:
    """A RouteMatch for all of `match`."""
    found: dict[str, Data] = path_match(match.path)
    headers: list[Data] = []
    if len(match.methods) == 1:
        headers.append({"name": ":method", "string_match": {"exact": match.methods[0]}})
    elif match.methods:
        headers.append({"name": ":method", "string_match": regex("|".join(match.methods))})
    named = [(KEPT_PROTO if h.name == PROTO else h.name, header_value(h.value)) for h in match.headers]
    headers += [{"name": name, "string_match": value} for name, value in named]
    if headers:
        found["headers"] = headers
    if match.query:
        found["query_parameters"] = [{"name": q.name, "string_match": query_value(q.value)} for q in match.query]
    if match.cookies:
        found["cookies"] = [{"name": c.name, "string_match": cookie_value(c.value)} for c in match.cookies]
    return found


def _forward(forward: Forward, rule: Rule, route: Route, clusters: Clusters) -> tuple[dict[str, Data], dict[str, Data]]:
    """A route action without what is said about its tries, and the edits of the request."""
    asked = demand(forward)
    targets = [target for target in forward.targets if target.weight]
    aimed = bool(sticky_pools(route, clusters.pools) or bounded_pools(route, clusters.pools))
    action: dict[str, Data] = {}
    edits: dict[str, Data] = {}
    if len(targets) == 1:
        action["cluster"] = cluster_name(targets[0].pool, asked, clusters)
        edits = {**request_edits(route.request_headers, targets[0].request_headers), **_places(targets[0], clusters)}
    else:
        action["weighted_clusters"] = {
            "clusters": [
                Tagged(
                    target.field,
                    {
                        "name": cluster_name(target.pool, asked, clusters),
                        "weight": target.weight,
                        **request_edits(route.request_headers, target.request_headers),
                        **_places(target, clusters),
                    },
                )
                for target in targets
            ]
        }
    if aimed:
        edits["request_headers_to_remove"] = [*_listed(edits.get("request_headers_to_remove")), *REMOVED]
    # The route's own timeout would run to the end of the body.
    action["timeout"] = "0s"
    if forward.mirrors:
        action["request_mirror_policies"] = [_mirror(mirror, asked, clusters) for mirror in forward.mirrors]
    if forward.rewrite is not None:
        action |= _rewrite(forward.rewrite, rule.match.path)
    return action, edits


def _places(target: Target, clusters: Clusters) -> dict[str, Data]:
    """What a route or share says to the filter that gives places."""
    pool = clusters.pools[target.pool]
    return {} if pool.max_per_endpoint is None else {_PER_FILTER: {PLACES: places_switch(pool)}}


def _mirror(mirror: Mirror, asked: Demand, clusters: Clusters) -> dict[str, Data]:
    share: Data = {"numerator": round(mirror.percent * 10_000), "denominator": "MILLION"}
    return {
        "cluster": cluster_name(mirror.pool, Demand(asked.connect, copies=True), clusters),
        "runtime_fraction": {"default_value": share},
        # Envoy would mark the copy's Host.
        "disable_shadow_host_suffix_append": True,
        "request_headers_mutations": kept_headers(),
    }


def _rewrite(rewrite: Rewrite, path: PathMatch) -> dict[str, Data]:
    found: dict[str, Data] = {}
    if rewrite.path is not None:
        found["regex_rewrite"] = _replace_all(rewrite.path)
    elif rewrite.prefix is not None:
        found["regex_rewrite"] = replace_prefix(path, rewrite.prefix)
    if rewrite.host is not None:
        found["host_rewrite_literal"] = rewrite.host
    return found


def replace_prefix(path: PathMatch, prefix: str) -> dict[str, Data]:
    """A RegexMatchAndSubstitute with `prefix` in the place of the matched path; the result is never `//` or empty."""
    new = prefix.rstrip("/")
    if path.kind is not PathKind.PREFIX:
        return _replace_all(new or "/")
    old = path_literal(path.value.rstrip("/"))
    if new:
        # Below `/` the tail is the whole path.
        return _substitute(f"^{old}(/.*)?$", _replacement(new) + r"\1")
    return _substitute(f"^{old}/?(.*)$", r"/\1")


def _replace_all(path: str) -> dict[str, Data]:
    return _substitute("^.*$", _replacement(path))


def _substitute(pattern: str, replacement: str) -> dict[str, Data]:
    return {"pattern": {"regex": pattern}, "substitution": replacement}


def _replacement(text_: str) -> str:
    return text_.replace("\\", "\\\\")


def _redirect(redirect: Redirect, rule: Rule, listener: Listener) -> dict[str, Data]:
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (_DEFAULT_PORTS[scheme] if redirect.scheme else listener.client_port)
    action: dict[str, Data] = {"scheme_redirect": scheme, "response_code": _REDIRECT_CODES[redirect.status]}
    host = redirect.host or _only_host(rule.host)
    if host is not None:
        action["host_redirect"] = host
    if port != _DEFAULT_PORTS[scheme]:
        action["port_redirect"] = port
    if redirect.path is not None:
        action["path_redirect"] = redirect.path
    elif redirect.prefix is not None:
        action["regex_rewrite"] = replace_prefix(rule.match.path, redirect.prefix)
    return action


def needs_request_host(rule: Rule, route: Route) -> bool:
    """Whether the rule redirects to a host that only the request can tell."""
    return isinstance(route.action, Redirect) and route.action.host is None and _only_host(rule.host) is None


def _only_host(host: HostPattern | None) -> str | None:
    return host.name if host is not None and not host.wildcard else None


def _respond(respond: Respond) -> dict[str, Data]:
    action: dict[str, Data] = {"status": respond.status}
    if respond.body:
        action["body"] = {"inline_string": respond.body}
    return action


def edits_late(route: Route) -> bool:
    """Whether the filter for late edits has to do with the route: for Content-Type, or for refusals."""
    if guarded(route) and (route.cors is not None or not isinstance(route.action, Forward)):
        return True
    own = route.action.headers if isinstance(route.action, Respond) else ()
    edits = route.response_headers
    return CONTENT_TYPE in {*edits.remove, *(name for name, _ in (*own, *edits.set, *edits.add))}
