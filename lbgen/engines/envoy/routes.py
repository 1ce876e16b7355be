"""Rules as Envoy routes: match, action and header edits."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.balancing import build_peer_hash
from lbgen.engines.envoy.cors import DROPPED_HEADERS, build_preflights, build_responses
from lbgen.engines.envoy.endpoint_slots import SLOTS
from lbgen.engines.envoy.headers import (
    CONTENT_TYPE,
    build_late_edits,
    build_request_edits,
    build_response_edits,
    merge_edits,
    read_late_edits,
)
from lbgen.engines.envoy.lua import build_lua_per_route
from lbgen.engines.envoy.matching import build_match
from lbgen.engines.envoy.mirrors import build_saved_headers
from lbgen.engines.envoy.per_route import build_access_config, build_metadata, build_per_route
from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.retries import LONG_BODY, build_resend_limit, group_retries
from lbgen.engines.envoy.rewrites import build_redirect, build_rewrite, has_request_host_redirect
from lbgen.engines.envoy.sticky import REMOVED_HEADERS, match_owners
from lbgen.engines.envoy.timeouts import (
    HEAD_ONLY,
    HEAD_ONLY_ENABLED,
    IS_HEAD_ONLY,
    compute_idle_timeouts,
    stream_idle_timeout,
)
from lbgen.engines.envoy.upstreams import ClusterOptions, cluster_name, cluster_options
from lbgen.plan.model import Forward, HeaderEdits, Redirect, Respond
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Listener, Route, Rule, Target
    from lbgen.plan.policy import Mirror

REDIRECT_HOST = "redirect-host"  # the Lua filter that prepares a request's host for a redirect
_MIRRORS = "request_mirror_policies"
_PER_FILTER = "typed_per_filter_config"
_IS_TUNNEL: dict[str, Data] = {"name": "upgrade", "string_match": {"exact": "websocket", "ignore_case": True}}
_ENABLE_REDIRECT_HOST = build_lua_per_route({"redirect": True})
_PREFLIGHT = Respond(204, "", ())
_ANY: tuple[list[dict[str, Data]], list[dict[str, Data]]] = ([], [])


class _Condition(Struct, frozen=True):
    """Conditions beyond the rule's own match."""

    headers: list[dict[str, Data]] = field(default_factory=list)
    cookies: list[dict[str, Data]] = field(default_factory=list)
    tunnel: bool = False


def build_routes(rule: Rule, route: Route, listener: Listener, clusters: Clusters) -> list[Tagged]:
    """The Envoy routes of `rule`, in order: one for each combination of method, origin and cookie that differs."""
    shared: dict[str, Data] = {"name": route.name} if listener.logs else {}
    match = build_match(rule.match, listener)
    built: list[dict[str, Data]] = []
    if route.cors is not None and (not rule.match.methods or "OPTIONS" in rule.match.methods):
        built += [
            {
                "match": _narrow(match, required),
                "direct_response": {"status": 204},
                **_add_filter_configs(
                    _own_response_edits(replace(route, action=_PREFLIGHT), headers),
                    build_access_config(route, listener),
                ),
            }
            for required, headers in build_preflights(route.cors)
        ]
    kinds = build_responses(route.cors) if route.cors is not None else iter([_ANY])
    for required, headers in kinds:
        for condition, action in _actions(rule, route, listener, clusters):
            narrowed = _narrow(_narrow(match, required), condition.headers, condition.cookies)
            own = action.pop(_PER_FILTER, {})
            response = (
                _endpoint_response_edits(route, headers)
                if isinstance(route.action, Forward)
                else _own_response_edits(route, headers)
            )
            response = _add_filter_configs(
                response, {**build_per_route(route, listener, clusters, tunnel=condition.tunnel), **_as_mapping(own)}
            )
            built.append({"match": narrowed, **build_metadata(route), **action, **response})
    return [Tagged(rule.field, {**shared, **each}) for each in built]


def _actions(
    rule: Rule, route: Route, listener: Listener, clusters: Clusters
) -> Iterator[tuple[_Condition, dict[str, Data]]]:
    match route.action:
        case Forward():
            yield from _forwards(route.action, rule, route, listener, clusters)
        case Redirect():
            own: dict[str, Data] = {"redirect": build_redirect(route.action, rule, listener)}
            if has_request_host_redirect(rule, route):
                own[_PER_FILTER] = {REDIRECT_HOST: _ENABLE_REDIRECT_HOST}
            yield _Condition(), own
        case Respond():
            yield _Condition(), {"direct_response": _respond(route.action)}
        case _:
            assert_never(route.action)


def _forwards(
    forward: Forward, rule: Rule, route: Route, listener: Listener, clusters: Clusters
) -> Iterator[tuple[_Condition, dict[str, Data]]]:
    for everything, headers in group_retries(forward, rule.match.methods):
        bound = build_resend_limit(forward, everything=everything)
        short = LONG_BODY not in headers  # a request with a long body is no tunnel
        for target, cookie in (*match_owners(forward, clusters.pools), (None, None)):
            to = forward if target is None else replace(forward, targets=(replace(target, weight=1),))
            action, edits = _forward(to, rule, route, clusters)
            cookies = [] if cookie is None else [cookie]
            pools = [clusters.pools[each.pool] for each in to.targets if each.weight]
            clocks = compute_idle_timeouts(forward, pools, listener.timeouts.body, everything=everything)
            times = forward.timeouts
            is_own = clocks.others != times.idle or times.request or forward.buffering.request or forward.mirrors
            if short and is_own:
                tunnel = {**action, **clocks.policy, "idle_timeout": duration(times.idle)}
                tunnel.pop(_MIRRORS, None)
                yield _Condition([*headers, _IS_TUNNEL], cookies, tunnel=True), {"route": tunnel, **edits}
            if times.request:
                action["max_stream_duration"] = {"max_stream_duration": duration(times.request)}
            if short and not clocks.is_single:
                alone = {**action, **clocks.policy, "idle_timeout": duration(clocks.head_only)}
                yield _Condition([*headers, IS_HEAD_ONLY], cookies), {"route": alone, **edits, **bound}
                edits = _add_filter_configs(edits, {HEAD_ONLY: HEAD_ONLY_ENABLED})
            # A request that gets another route keeps the timeout of the first, unless the second has its own.
            idle = (
                _idle_timeout(clocks.others, listener)
                if clocks.is_single
                else {"idle_timeout": duration(clocks.others)}
            )
            whole = {**action, **clocks.policy, **idle}
            yield _Condition(headers, cookies), {"route": whole, **edits, **bound}


def is_for_tunnels(route: Mapping[str, Data]) -> bool:
    """Whether an Envoy route is for WebSocket alone."""
    return _IS_TUNNEL in _listed(_as_mapping(route["match"]).get("headers"))


def _idle_timeout(idle: int, listener: Listener) -> dict[str, Data]:
    """The field of a route action, where the listener's timeout is another."""
    return {} if idle == stream_idle_timeout(listener.timeouts) else {"idle_timeout": duration(idle)}


def _endpoint_response_edits(route: Route, cors: list[dict[str, Data]]) -> dict[str, Data]:
    """The fields for edits of an endpoint's response: those of CORS, then the route's own."""
    found = build_response_edits(route.response_headers)
    if route.cors is not None:
        found["response_headers_to_remove"] = [*DROPPED_HEADERS, *_listed(found.get("response_headers_to_remove"))]
        if added := [*cors, *_listed(found.get("response_headers_to_add"))]:
            found["response_headers_to_add"] = added
    return found


def _own_response_edits(route: Route, cors: list[dict[str, Data]]) -> dict[str, Data]:
    """The fields for edits of a response that the route itself makes.

    Envoy applies a route's edits only to that response; where a policy may refuse a request, a filter edits every
    response instead.
    """
    own = HeaderEdits()
    if isinstance(route.action, Respond):
        # Envoy would add its own Location.
        status = route.action.status
        removed = ("location",) if status == HTTPStatus.CREATED or 300 <= status < 400 else ()
        own = HeaderEdits(set=_own_headers(route.action), remove=removed)
    if not is_guarded(route):
        found = build_response_edits(own, route.response_headers)
        if cors:
            found["response_headers_to_add"] = [*cors, *_listed(found.get("response_headers_to_add"))]
        return found
    removed_names, added = merge_edits(route.response_headers)
    found = build_response_edits(own)
    late = [*read_late_edits(found), *({"remove": name} for name in removed_names)]
    late += [{"append": each} for each in (*cors, *added)]
    return {**found, **build_late_edits(late)} if late else found


def _own_headers(action: Respond) -> tuple[tuple[str, str], ...]:
    """The headers of a fixed response that Envoy does not set by itself."""
    return tuple(each for each in action.headers if not (action.body and each == (CONTENT_TYPE, "text/plain")))


def is_guarded(route: Route) -> bool:
    """Whether a policy may refuse requests of the route."""
    return (
        route.access is not None
        or route.rate_limit is not None
        or route.concurrency is not None
        or route.max_body is not None
    )


def _listed(data: Data) -> list[Data]:
    return list(data) if isinstance(data, list) else []


def _as_mapping(data: Data) -> Mapping[str, Data]:
    return data if isinstance(data, dict) else {}


def _add_filter_configs(fields: dict[str, Data], more: Mapping[str, Data]) -> dict[str, Data]:
    """`fields` of a route with further filter configurations."""
    if not more:
        return fields
    return {**fields, _PER_FILTER: {**more, **_as_mapping(fields.get(_PER_FILTER, {}))}}


def _narrow(
    match: Mapping[str, Data], headers: Sequence[dict[str, Data]], cookies: Sequence[dict[str, Data]] = ()
) -> dict[str, Data]:
    """`match` with further conditions."""
    if not headers and not cookies:
        return dict(match)
    found = dict(match)
    if headers:
        found["headers"] = [*_listed(match.get("headers")), *headers]
    if cookies:
        found["cookies"] = [*_listed(match.get("cookies")), *cookies]
    return found


def _forward(forward: Forward, rule: Rule, route: Route, clusters: Clusters) -> tuple[dict[str, Data], dict[str, Data]]:
    """A route action without its timeouts and retries, and the request edits."""
    options = cluster_options(forward)
    targets = [target for target in forward.targets if target.weight]
    action: dict[str, Data] = {}
    edits: dict[str, Data] = {}
    if len(targets) == 1:
        action["cluster"] = cluster_name(targets[0].pool, options, clusters)
        edits = {
            **build_request_edits(route.request_headers, targets[0].request_headers),
            **_slot_configs(targets[0], clusters),
        }
    else:
        action["weighted_clusters"] = {
            "clusters": [
                Tagged(
                    target.field,
                    {
                        "name": cluster_name(target.pool, options, clusters),
                        "weight": target.weight,
                        **build_request_edits(route.request_headers, target.request_headers),
                        **_slot_configs(target, clusters),
                    },
                )
                for target in targets
            ]
        }
    if clusters.tracked and not clusters.tracked.isdisjoint(pool.name for pool in clusters.target_pools(route)):
        edits["request_headers_to_remove"] = [*_listed(edits.get("request_headers_to_remove")), *REMOVED_HEADERS]
    if not clusters.hashed.isdisjoint([target.pool for target in targets]):
        action["hash_policy"] = build_peer_hash(saved=clusters.saved_peer)
    # The route's own timeout would include the response body.
    action["timeout"] = "0s"
    if forward.mirrors:
        action[_MIRRORS] = [_mirror(mirror, options, clusters) for mirror in forward.mirrors]
    if forward.rewrite is not None:
        action |= build_rewrite(forward.rewrite, rule.match.path)
    return action, edits


def _slot_configs(target: Target, clusters: Clusters) -> dict[str, Data]:
    """The configuration of the filter for endpoint slots, on a route or share."""
    pool = clusters.pools[target.pool]
    return {} if pool.max_per_endpoint is None else {_PER_FILTER: {SLOTS: build_lua_per_route({"pool": pool.name})}}


def _mirror(mirror: Mirror, options: ClusterOptions, clusters: Clusters) -> dict[str, Data]:
    share: Data = {"numerator": round(mirror.percent * 10_000), "denominator": "MILLION"}
    return {
        "cluster": cluster_name(mirror.pool, ClusterOptions(options.connect, mirrored=True), clusters),
        "runtime_fraction": {"default_value": share},
        # Envoy would add a suffix to the copy's Host.
        "disable_shadow_host_suffix_append": True,
        "request_headers_mutations": build_saved_headers(),
    }


def _respond(respond: Respond) -> dict[str, Data]:
    action: dict[str, Data] = {"status": respond.status}
    if respond.body:
        action["body"] = {"inline_string": respond.body}
    return action


def has_late_edits(route: Route) -> bool:
    """Whether the route needs the filter for late edits: for Content-Type, or for refusals."""
    if is_guarded(route) and (route.cors is not None or not isinstance(route.action, Forward)):
        return True
    own = _own_headers(route.action) if isinstance(route.action, Respond) else ()
    edits = route.response_headers
    if not own and not edits:
        return False
    return CONTENT_TYPE in {*edits.remove, *(name for name, _ in (*own, *edits.set, *edits.add))}
