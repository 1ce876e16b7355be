"""The features that a topology uses, each with the field that asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from lbgen.plan.conditions import FEATURES, read_conditions
from lbgen.plan.expand import forwarded_pools
from lbgen.plan.features import Feature
from lbgen.plan.listener import ClientTimeouts
from lbgen.plan.path_conditions import read_path
from lbgen.plan.resolve_policies import client_timeouts

if TYPE_CHECKING:
    from lbgen.plan.expand import ExpandedTopology
    from lbgen.spec.listener import Listener
    from lbgen.spec.match import Match
    from lbgen.spec.model import TopologyModel
    from lbgen.spec.policy import Timeouts
    from lbgen.spec.pool import Pool
    from lbgen.spec.route import ForwardTarget, HeaderEdits, Route

FeatureUse = tuple[Feature, str]
Written = Callable[[str], bool]

_BALANCE = {
    "round_robin": Feature.ROUND_ROBIN,
    "least_connections": Feature.LEAST_CONNECTIONS,
    "random": Feature.RANDOM,
    "source_hash": Feature.SOURCE_HASH,
}
_WEIGHTED = {"least_connections": Feature.LEAST_CONNECTIONS_WEIGHTED, "source_hash": Feature.SOURCE_HASH_WEIGHTED}
# Fields whose presence is a use of a feature.
_LISTENER = {
    "proxy_protocol": Feature.PROXY_PROTOCOL_IN,
    "access": Feature.LISTENER_ACCESS,
    "limits": Feature.LISTENER_LIMITS,
}
_ROUTE = {
    "redirect": Feature.REDIRECT,
    "respond": Feature.RESPOND,
    "retries": Feature.RETRIES,
    "rate_limit": Feature.RATE_LIMIT,
    "concurrency": Feature.CONCURRENCY,
    "max_body": Feature.MAX_BODY,
    "buffering": Feature.BUFFERING,
    "mirror": Feature.MIRROR,
    "cors": Feature.CORS,
    "compression": Feature.COMPRESSION,
    "access": Feature.ROUTE_ACCESS,
}
_REWRITE = {"prefix": Feature.REWRITE_PREFIX, "path": Feature.REWRITE_PATH, "host": Feature.REWRITE_HOST}
_ROUTE_DEFAULTS = ("max_body", "buffering")  # that a topology or profile may set for all
_POOL = {"sticky": Feature.STICKY, "tls": Feature.POOL_TLS, "slow_start": Feature.SLOW_START}
_PROXY_PROTOCOL = {False: Feature.PROXY_PROTOCOL_OUT, True: Feature.L4_PROXY_PROTOCOL_OUT}  # by whether it is L4
_HEALTH = {"active": Feature.HEALTH_ACTIVE, "passive": Feature.HEALTH_PASSIVE}
_CONNECTIONS = {
    "keepalive": Feature.KEEPALIVE,
    "keepalive_idle": Feature.KEEPALIVE_IDLE,
    "max_per_endpoint": Feature.MAX_PER_ENDPOINT,
    "queue": Feature.QUEUE,
}
_REQUEST_EDITS = (Feature.REQUEST_HEADERS_SET, Feature.REQUEST_HEADERS_ADD, Feature.REQUEST_HEADERS_REMOVE)
_RESPONSE_EDITS = (Feature.RESPONSE_HEADERS_SET, Feature.RESPONSE_HEADERS_ADD, Feature.RESPONSE_HEADERS_REMOVE)
_ALWAYS = (
    Feature.MALFORMED,
    Feature.HOP_BY_HOP,
    Feature.CONNECTION_NOMINATED,
    Feature.WEBSOCKET,
    Feature.FAILURES,
)
_UNDERSCORES = "headers_with_underscores"
_TIMES = {
    "connect": Feature.TIMEOUT_CONNECT,
    "response": Feature.TIMEOUT_RESPONSE,
    "idle": Feature.TIMEOUT_IDLE,
    "request": Feature.TIMEOUT_REQUEST,
}


def explicit_uses(expanded: ExpandedTopology, written: Written) -> Iterator[FeatureUse]:
    """Every use, in the order of the file, without fields of pools that no route uses.

    `written(field)` is whether the user's own file has the field; timeouts of L4 routes count only then (see
    `default_uses`).
    """
    model = expanded.model
    routes = [(i, route) for i, route in enumerate(model.routes) if expanded.listeners[i]]  # the rest: other tiers'
    forwarding = {name for i, route in routes if route.forward is not None for name in expanded.listeners[i]}
    for name, listener in model.listeners.items():
        uses = _listener(model, f"listeners.{name}", listener, name in forwarding)
        yield from uses
    used = expanded.used_pools
    for name, pool in model.pools.items():
        if name in used:
            yield from _pool(f"pools.{name}", pool)
            for l4, feature in _PROXY_PROTOCOL.items() if pool.proxy_protocol is not None else ():
                if name in forwarded_pools(route for index, route in routes if expanded.is_l4(index) == l4):
                    yield feature, f"pools.{name}.proxy_protocol"
    if model.metrics is not None and _has_l4_over_tcp(model):
        yield Feature.METRICS_L4, "metrics"
    defaults = [key for key in _ROUTE_DEFAULTS if getattr(model, key) is not None]
    inherited = {l4: _times(model, "", None, l4, written) for l4 in (False, True)}
    for index, route in routes:
        field, is_l4 = f"routes[{index}]", expanded.is_l4(index)
        times: list[FeatureUse] = []
        if route.forward is not None and route.timeouts is not None:
            times = _times(model, field, route.timeouts, is_l4, written)
        elif route.forward is not None:
            times = [(feature, place or field) for feature, place in inherited[is_l4]]
            inherited[is_l4] = [use for use in inherited[is_l4] if not use[1]]  # list the topology's own fields once
        own_defaults = [] if route.forward is None or is_l4 else defaults
        yield from _route(model, field, route, is_l4, own_defaults, times)
    for name, engine in model.engines.items():
        for place in engine.verbatim:
            yield Feature.ESCAPE_HATCH, f"engines.{name}.{place}"
        if engine.forwarding == "direct":
            yield Feature.DIRECT, f"engines.{name}.forwarding"


def default_uses(expanded: ExpandedTopology, written: Written) -> Iterator[FeatureUse]:
    """Features that hold for every topology: an engine that differs states it, and still serves.

    For L7 listeners: clauses that no field controls, the default client timeouts and the metrics. For all over TCP: the
    access log. For L4 routes: timeouts that the user did not write, as a kernel has none.
    """
    for name, listener in expanded.model.listeners.items():
        if listener.mode == "l7":
            for feature in _ALWAYS:
                yield feature, f"listeners.{name}"
            if (listener.headers_with_underscores or expanded.model.headers_with_underscores) != "pass":
                yield Feature.UNDERSCORES_DROP, f"listeners.{name}"
            if not _other_client_times(expanded.model, listener):
                yield Feature.CLIENT_TIMEOUTS, f"listeners.{name}.timeouts"
        if listener.terminates_tls:
            yield Feature.TLS_NO_SNI, f"listeners.{name}.tls"
    l7 = any(listener.mode == "l7" for listener in expanded.model.listeners.values())
    if l7 and expanded.model.access_log == "json":
        yield Feature.ACCESS_LOG, "access_log"
    if _has_l4_over_tcp(expanded.model) and expanded.model.access_log == "json":
        yield Feature.ACCESS_LOG_L4, "access_log"
    if l7 and expanded.model.metrics is not None:
        yield Feature.METRICS, "metrics"
    times = expanded.model.timeouts
    for index, route in enumerate(expanded.model.routes):
        if not expanded.is_l4(index) or route.forward is None:
            continue
        for key in ("connect", "idle"):
            own = route.timeouts is not None and getattr(route.timeouts, key) is not None
            above = times is not None and getattr(times, key) is not None and written(f"timeouts.{key}")
            if not own and not above:
                yield _TIMES[key], f"routes[{index}].timeouts.{key}"


def _has_l4_over_tcp(model: TopologyModel) -> bool:
    return any(listener.mode == "l4" and listener.protocol != "udp" for listener in model.listeners.values())


def _other_client_times(model: TopologyModel, listener: Listener) -> bool:
    """Whether client timeouts differ from the defaults."""
    return client_timeouts(listener.timeouts, model.client_timeouts) != ClientTimeouts()


def _listener(model: TopologyModel, field: str, listener: Listener, forwards: bool) -> Iterator[FeatureUse]:
    if listener.mode == "l4":
        yield (Feature.L4_UDP if listener.protocol == "udp" else Feature.L4_TCP), field
    else:
        yield from _l7_listener(model, field, listener, forwards)
    if listener.address == "::":
        yield Feature.DUAL_STACK, f"{field}.address"
    if listener.tls is not None:
        passed = listener.tls.mode == "passthrough"
        yield (Feature.TLS_PASSTHROUGH if passed else Feature.TLS_TERMINATE), f"{field}.tls"
        if listener.tls.curves is not None:
            yield Feature.TLS_CURVES, f"{field}.tls.curves"
        if listener.tls.client is not None:
            yield Feature.TLS_CLIENT_CERT, f"{field}.tls.client"
    if listener.max_connections is not None:
        l4 = listener.mode == "l4"
        yield (Feature.L4_MAX_CONNECTIONS if l4 else Feature.MAX_CONNECTIONS), f"{field}.max_connections"
    for key, feature in _LISTENER.items():
        if getattr(listener, key) is not None:
            yield feature, f"{field}.{key}"
        elif key == "limits" and model.limits is not None and listener.mode == "l7":
            yield feature, key


def _l7_listener(model: TopologyModel, field: str, listener: Listener, forwards: bool) -> Iterator[FeatureUse]:
    yield Feature.L7, field
    yield Feature.FRAMING, field
    yield Feature.STATUSES, field
    if forwards:
        if model.forwarded_headers is not False:
            yield Feature.FORWARDED_HEADERS, field if model.forwarded_headers is None else "forwarded_headers"
        if model.request_id is not False:
            yield Feature.REQUEST_ID, field if model.request_id is None else "request_id"
    if listener.trusted_proxies:
        yield Feature.TRUSTED_PROXIES, f"{field}.trusted_proxies"
    if listener.http2 or (listener.http2 is None and listener.tls is not None):
        yield Feature.HTTP2, f"{field}.tls" if listener.http2 is None else f"{field}.http2"
    if _other_client_times(model, listener):
        for times, place in ((listener.timeouts, f"{field}.timeouts"), (model.client_timeouts, "client_timeouts")):
            if times is not None:
                yield Feature.CLIENT_TIMEOUTS, place
    if (listener.headers_with_underscores or model.headers_with_underscores) == "pass":
        own = listener.headers_with_underscores is not None
        yield Feature.UNDERSCORES_PASS, f"{field}.{_UNDERSCORES}" if own else _UNDERSCORES
    paths, place = listener.paths, f"{field}.paths"
    if paths is None:
        paths, place = model.paths, "paths"
    if paths is None:
        yield Feature.PATHS_STRICT, field
    elif paths.mode == "strict":
        yield Feature.PATHS_STRICT, place
        if paths.allow:
            yield Feature.PATHS_ALLOW, f"{place}.allow"
    else:
        yield (Feature.PATHS_NORMALIZE if paths.mode == "normalize" else Feature.PATHS_VERBATIM), place


def _pool(field: str, pool: Pool) -> Iterator[FeatureUse]:
    balance = pool.balance
    place = field if balance is None else f"{field}.balance"
    method = "round_robin" if balance is None else balance.method
    yield (Feature.HASH if method is None else _BALANCE[method]), place
    weights = [endpoint.weight for endpoint in pool.endpoints]
    if method in _WEIGHTED and len({weight for weight in weights if weight}) > 1:
        yield _WEIGHTED[method], place
    for index, endpoint in enumerate(pool.endpoints):
        place = f"{field}.endpoints[{index}]"
        if endpoint.weight > 1:
            yield Feature.WEIGHTS, f"{place}.weight"
        if endpoint.weight == 0:
            yield Feature.DRAIN, f"{place}.weight"
        if endpoint.backup:
            yield Feature.BACKUP, f"{place}.backup"
        if not endpoint.address.is_ip:
            yield Feature.ENDPOINT_NAMES, f"{place}.address"
        elif ":" in endpoint.address.host:
            yield Feature.ENDPOINT_IPV6, f"{place}.address"
    yield from _present(f"{field}.health", pool.health, _HEALTH)
    yield from _present(f"{field}.connections", pool.connections, _CONNECTIONS)
    if pool.protocol in ("http2", "grpc"):
        yield (Feature.POOL_HTTP2 if pool.protocol == "http2" else Feature.POOL_GRPC), f"{field}.protocol"
    yield from _present(field, pool, _POOL)


def _present(field: str, written: object | None, features: Mapping[str, Feature]) -> list[FeatureUse]:
    """The features of the fields that `written` has."""
    if written is None:
        return []
    return [(feature, f"{field}.{key}") for key, feature in features.items() if getattr(written, key) is not None]


def _route(
    model: TopologyModel, field: str, route: Route, l4: bool, defaults: list[str], times: list[FeatureUse]
) -> list[FeatureUse]:
    """`defaults`: the keys that the topology sets for this route; `times`: what `_times` says of it."""
    found: list[FeatureUse] = []
    for index, host in enumerate(route.hosts or ()):
        feature = Feature.HOST_WILDCARD if host.startswith("*.") else Feature.HOST_EXACT
        found.append((Feature.L4_SNI if l4 else feature, f"{field}.hosts[{index}]"))
    if route.sources is not None:
        found.append((Feature.L4_SOURCES, f"{field}.sources"))
    if route.priority:
        found.append((Feature.PRIORITY, f"{field}.priority"))
    for index, match in enumerate(route.match or ()):
        found += _match(f"{field}.match[{index}]", match)
    if route.forward is not None:
        found += (*_forward(field, route, route.forward), *times)
    for key, feature in _ROUTE.items() if defaults or not route.model_fields_set.isdisjoint(_ROUTE) else ():
        if getattr(route, key) is not None:
            found.append((feature, f"{field}.{key}"))
        elif key in defaults:
            found.append((feature, key))
    if route.retries is not None and route.retries.budget is not None:
        found.append((Feature.RETRY_BUDGET, f"{field}.retries.budget"))
    asked, answered, all_answered = route.request_headers, route.response_headers, model.response_headers
    found += _edits(f"{field}.request_headers", asked, _REQUEST_EDITS) if asked else ()
    found += _edits(f"{field}.response_headers", answered, _RESPONSE_EDITS) if answered else ()
    found += _edits("response_headers", all_answered, _RESPONSE_EDITS) if all_answered and not l4 else ()
    return found


def _forward(field: str, route: Route, targets: list[ForwardTarget]) -> list[FeatureUse]:
    found = [(Feature.FORWARD, f"{field}.forward")]
    if len(targets) > 1:
        found.append((Feature.SPLIT, f"{field}.forward"))
    for index, target in enumerate(targets):
        if target.request_headers is not None:
            found.append((Feature.SPLIT_HEADERS, f"{field}.forward[{index}].request_headers"))
    return found + _present(f"{field}.rewrite", route.rewrite, _REWRITE) if route.rewrite else found


def _times(model: TopologyModel, field: str, times: Timeouts | None, l4: bool, written: Written) -> list[FeatureUse]:
    """Those of a route that forwards and has these `times`; the ones at `field` itself are built-in defaults."""
    found = []
    for key, feature in _TIMES.items():
        own = None if times is None else getattr(times, key)
        above = None if model.timeouts is None else getattr(model.timeouts, key)
        if key == "request" and not (above if own is None else own):
            continue  # no limit
        if own is not None:
            found.append((feature, f"{field}.timeouts.{key}"))
        elif above is not None:
            if not l4 or (key in ("connect", "idle") and written(f"timeouts.{key}")):
                found.append((feature, f"timeouts.{key}"))
        elif not l4:
            found.append((feature, field))
    return found


def _match(field: str, match: Match) -> list[FeatureUse]:
    path = read_path(match)
    found = [] if path is None else [(Feature(FEATURES[type(path)]), f"{field}.path")]
    return found + [(Feature(FEATURES[each.kind]), f"{field}.{each.field}") for each in read_conditions(match)]


def _edits(field: str, edits: HeaderEdits, features: tuple[Feature, Feature, Feature]) -> Iterator[FeatureUse]:
    for key, feature in zip(("set", "add", "remove"), features, strict=True):
        if getattr(edits, key):
            yield feature, f"{field}.{key}"
