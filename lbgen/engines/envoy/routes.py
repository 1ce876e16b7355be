"""Rules as Envoy routes: match, action and header edits."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, field

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.cors import DROPPED_HEADERS, build_cors_headers
from lbgen.engines.envoy.forwarded_headers import match_trusted_peer
from lbgen.engines.envoy.headers import (
    CONTENT_TYPE,
    build_request_edits,
    build_response_edits,
    escape_format,
    read_content_type,
)
from lbgen.engines.envoy.matching import build_match
from lbgen.engines.envoy.mirrors import build_saved_headers
from lbgen.engines.envoy.per_route import build_metadata, build_per_route
from lbgen.engines.envoy.protobuf import duration
from lbgen.engines.envoy.retries import build_resend_limit, build_retry_policy, count_tries, group_retries
from lbgen.engines.envoy.rewrites import build_redirect, build_rewrite
from lbgen.engines.envoy.sticky import REMOVED_HEADERS, match_owners
from lbgen.engines.envoy.timeouts import compute_idle_timeout, stream_idle_timeout
from lbgen.engines.envoy.upstreams import ClusterOptions, cluster_name, cluster_options
from lbgen.plan.model import Forward, HeaderEdits, Redirect, Respond
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.upstreams import Clusters
    from lbgen.plan.model import Listener, Plan, Route, Rule
    from lbgen.plan.policy import Mirror

_MIRRORS = "request_mirror_policies"
_PER_FILTER = "typed_per_filter_config"
_IS_TUNNEL: dict[str, Data] = {"name": "upgrade", "string_match": {"exact": "websocket", "ignore_case": True}}


class _Condition(Struct, frozen=True):
    """Conditions beyond the rule's own match."""

    headers: list[dict[str, Data]] = field(default_factory=list)
    cookies: list[dict[str, Data]] = field(default_factory=list)
    tunnel: bool = False


def build_routes(plan: Plan, rule: Rule, route: Route, listener: Listener, clusters: Clusters) -> list[Tagged]:
    """The Envoy routes of `rule`, in order: one for each combination of method, tunnel and cookie that differs."""
    shared: dict[str, Data] = {"name": route.name} if listener.logs else {}
    match = build_match(rule.match, listener) | match_trusted_peer(plan, listener, rule.match)
    edits = _build_response_edits(route)
    built: list[Tagged] = []
    for condition, action in _actions(rule, route, listener, clusters):
        filters = build_per_route(route, listener, clusters, tunnel=condition.tunnel)
        made = {
            **shared,
            "match": _narrow(match, condition.headers, condition.cookies),
            **build_metadata(route),
            **action,
            **edits,
            **({_PER_FILTER: filters} if filters else {}),
        }
        built.append(Tagged(rule.field, made))
    return built


def _actions(
    rule: Rule, route: Route, listener: Listener, clusters: Clusters
) -> Iterator[tuple[_Condition, dict[str, Data]]]:
    match route.action:
        case Forward():
            yield from _forwards(route.action, rule, route, listener, clusters)
        case Redirect():
            yield _Condition(), {"redirect": build_redirect(route.action, rule, listener)}
        case Respond():
            yield _Condition(), {"direct_response": _respond(route.action, route.response_headers)}
        case _:
            assert_never(route.action)


def _forwards(
    forward: Forward, rule: Rule, route: Route, listener: Listener, clusters: Clusters
) -> Iterator[tuple[_Condition, dict[str, Data]]]:
    times = forward.timeouts
    idle = compute_idle_timeout(times, listener.timeouts, count_tries(forward))
    clock: dict[str, Data] = {} if idle == stream_idle_timeout(listener.timeouts) else {"idle_timeout": duration(idle)}
    for everything, headers in group_retries(forward, rule.match.methods):
        for target, cookie in (*match_owners(forward, clusters.pools), (None, None)):
            to = forward if target is None else replace(forward, targets=(replace(target, weight=1),))
            action, edits = _forward(to, rule, route, clusters)
            cookies = [] if cookie is None else [cookie]
            pools = [clusters.pools[each.pool] for each in to.targets if each.weight]
            policy = build_retry_policy(forward, pools, idle, everything=everything)
            whole = {**action, **policy, **clock}
            if times.request or forward.buffering.request or forward.mirrors:
                tunnel = {key: value for key, value in whole.items() if key != _MIRRORS}
                yield _Condition([*headers, _IS_TUNNEL], cookies, tunnel=True), {"route": tunnel, **edits}
            if times.request:
                whole["max_stream_duration"] = {"max_stream_duration": duration(times.request)}
            yield _Condition(headers, cookies), {"route": whole, **edits, **build_resend_limit(forward)}


def is_for_tunnels(route: Mapping[str, Data]) -> bool:
    """Whether an Envoy route is for WebSocket alone."""
    return _IS_TUNNEL in _listed(_as_mapping(route["match"]).get("headers"))


def _build_response_edits(route: Route) -> dict[str, Data]:
    """The fields for edits of responses: CORS, then the route's own."""
    own = route.response_headers
    if isinstance(route.action, Respond):
        # Envoy would add its own Location.
        status = route.action.status
        removed = ("location",) if status == HTTPStatus.CREATED or 300 <= status < 400 else ()
        answer = HeaderEdits(set=route.action.headers, remove=removed)
        found = build_response_edits(_without_content_type(answer), _without_content_type(own))
    else:
        found = build_response_edits(own)
    if route.cors is not None:
        if isinstance(route.action, Forward):
            found["response_headers_to_remove"] = [*DROPPED_HEADERS, *_listed(found.get("response_headers_to_remove"))]
        found["response_headers_to_add"] = [*build_cors_headers(), *_listed(found.get("response_headers_to_add"))]
    return found


def _without_content_type(edits: HeaderEdits) -> HeaderEdits:
    """The edits beside what Envoy sets after them, see `_respond`."""
    return replace(edits, set=tuple(each for each in edits.set if each[0] != CONTENT_TYPE))


def _listed(data: Data) -> list[Data]:
    return list(data) if isinstance(data, list) else []


def _as_mapping(data: Data) -> Mapping[str, Data]:
    return data if isinstance(data, dict) else {}


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
        edits = build_request_edits(route.request_headers, targets[0].request_headers)
    else:
        action["weighted_clusters"] = {
            "clusters": [
                Tagged(
                    target.field,
                    {
                        "name": cluster_name(target.pool, options, clusters),
                        "weight": target.weight,
                        **build_request_edits(route.request_headers, target.request_headers),
                    },
                )
                for target in targets
            ]
        }
    if any(pool.sticky is not None for pool in clusters.target_pools(route)):
        edits["request_headers_to_remove"] = [*_listed(edits.get("request_headers_to_remove")), *REMOVED_HEADERS]
    # The route's own timeout would include the response body.
    action["timeout"] = "0s"
    if forward.mirrors:
        action[_MIRRORS] = [_mirror(mirror, options, clusters) for mirror in forward.mirrors]
    if forward.rewrite is not None:
        action |= build_rewrite(forward.rewrite, rule.match.path)
    return action, edits


def _mirror(mirror: Mirror, options: ClusterOptions, clusters: Clusters) -> dict[str, Data]:
    share: Data = {"numerator": round(mirror.percent * 10_000), "denominator": "MILLION"}
    return {
        "cluster": cluster_name(mirror.pool, ClusterOptions(options.connect, mirrored=True), clusters),
        "runtime_fraction": {"default_value": share},
        # Envoy would add a suffix to the copy's Host.
        "disable_shadow_host_suffix_append": True,
        "request_headers_mutations": build_saved_headers(),
    }


def _respond(respond: Respond, edits: HeaderEdits) -> dict[str, Data]:
    action: dict[str, Data] = {"status": respond.status}
    kind = read_content_type(HeaderEdits(set=respond.headers), edits)
    if kind not in (None, "text/plain") and respond.body:
        # Envoy sets the type of the body after it has edited headers.
        text: Data = {"inline_string": escape_format(respond.body)}
        action["body_format"] = {"text_format_source": text, "content_type": kind}
    elif respond.body:
        action["body"] = {"inline_string": respond.body}
    return action
