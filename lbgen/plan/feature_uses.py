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
    "round_robin": "pool.balance.round_robin",
    "least_connections": "pool.balance.least_connections",
    "random": "pool.balance.random",
    "source_hash": "pool.balance.source_hash",
}
_WEIGHTED = {
    "least_connections": "pool.balance.least_connections.weights",
    "source_hash": "pool.balance.source_hash.weights",
}
# Fields whose presence is a use of a feature.
_LISTENER = {
    "proxy_protocol": "listener.proxy_protocol",
    "access": "listener.access",
    "limits": "listener.limits",
}
_ROUTE = {
    "redirect": "route.redirect",
    "respond": "route.respond",
    "retries": "route.retries",
    "rate_limit": "route.rate_limit",
    "concurrency": "route.concurrency",
    "max_body": "route.max_body",
    "buffering": "route.buffering",
    "mirror": "route.mirror",
    "cors": "route.cors",
    "compression": "route.compression",
    "access": "route.access",
}
_REWRITE = {"prefix": "route.rewrite.prefix", "path": "route.rewrite.path", "host": "route.rewrite.host"}
_ROUTE_DEFAULTS = ("max_body", "buffering")  # that a topology or profile may set for all
_POOL = {"sticky": "pool.sticky", "tls": "pool.tls", "slow_start": "pool.slow_start"}
_PROXY_PROTOCOL = {False: "pool.proxy_protocol", True: "pool.proxy_protocol.l4"}  # by whether it is L4
_HEALTH = {"active": "pool.health.active", "passive": "pool.health.passive"}
_CONNECTIONS = {
    "keepalive": "pool.connections.keepalive",
    "keepalive_idle": "pool.connections.keepalive_idle",
    "max_per_endpoint": "pool.connections.max_per_endpoint",
    "queue": "pool.connections.queue",
}
_REQUEST_EDITS = ("route.request_headers.set", "route.request_headers.add", "route.request_headers.remove")
_RESPONSE_EDITS = ("route.response_headers.set", "route.response_headers.add", "route.response_headers.remove")
_ALWAYS = (
    "framing.malformed",
    "headers.hop_by_hop",
    "headers.connection_nominated",
    "route.websocket",
    "statuses.failures",
)
_UNDERSCORES = "headers_with_underscores"
_TIMES = {
    "connect": "timeouts.connect",
    "response": "timeouts.response",
    "idle": "timeouts.idle",
    "request": "timeouts.request",
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
        yield "metrics.l4", "metrics"
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
            yield "engines.verbatim", f"engines.{name}.{place}"
        if engine.forwarding == "direct":
            yield "engines.forwarding.direct", f"engines.{name}.forwarding"


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
                yield "headers_with_underscores.drop", f"listeners.{name}"
            if not _other_client_times(expanded.model, listener):
                yield "listener.timeouts", f"listeners.{name}.timeouts"
        if listener.terminates_tls:
            yield "listener.tls.no_sni", f"listeners.{name}.tls"
    l7 = any(listener.mode == "l7" for listener in expanded.model.listeners.values())
    if l7 and expanded.model.access_log == "json":
        yield "access_log", "access_log"
    if _has_l4_over_tcp(expanded.model) and expanded.model.access_log == "json":
        yield "access_log.l4", "access_log"
    if l7 and expanded.model.metrics is not None:
        yield "metrics", "metrics"
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
        yield ("listener.l4.udp" if listener.protocol == "udp" else "listener.l4.tcp"), field
    else:
        yield from _l7_listener(model, field, listener, forwards)
    if listener.address == "::":
        yield "listener.address.dual_stack", f"{field}.address"
    if listener.tls is not None:
        passed = listener.tls.mode == "passthrough"
        yield ("listener.tls.passthrough" if passed else "listener.tls"), f"{field}.tls"
        if listener.tls.curves is not None:
            yield "listener.tls.curves", f"{field}.tls.curves"
        if listener.tls.client is not None:
            yield "listener.tls.client", f"{field}.tls.client"
    if listener.max_connections is not None:
        l4 = listener.mode == "l4"
        yield ("listener.max_connections.l4" if l4 else "listener.max_connections"), f"{field}.max_connections"
    for key, feature in _LISTENER.items():
        if getattr(listener, key) is not None:
            yield feature, f"{field}.{key}"
        elif key == "limits" and model.limits is not None and listener.mode == "l7":
            yield feature, key


def _l7_listener(model: TopologyModel, field: str, listener: Listener, forwards: bool) -> Iterator[FeatureUse]:
    yield "listener.l7", field
    yield "framing", field
    yield "statuses", field
    if forwards:
        if model.forwarded_headers is not False:
            yield "forwarded_headers", field if model.forwarded_headers is None else "forwarded_headers"
        if model.request_id is not False:
            yield "request_id", field if model.request_id is None else "request_id"
    if listener.trusted_proxies:
        yield "listener.trusted_proxies", f"{field}.trusted_proxies"
    if listener.http2 or (listener.http2 is None and listener.tls is not None):
        yield "listener.http2", f"{field}.tls" if listener.http2 is None else f"{field}.http2"
    if _other_client_times(model, listener):
        for times, place in ((listener.timeouts, f"{field}.timeouts"), (model.client_timeouts, "client_timeouts")):
            if times is not None:
                yield "listener.timeouts", place
    if (listener.headers_with_underscores or model.headers_with_underscores) == "pass":
        own = listener.headers_with_underscores is not None
        yield "headers_with_underscores.pass", f"{field}.{_UNDERSCORES}" if own else _UNDERSCORES
    paths, place = listener.paths, f"{field}.paths"
    if paths is None:
        paths, place = model.paths, "paths"
    if paths is None:
        yield "paths.strict", field
    elif paths.mode == "strict":
        yield "paths.strict", place
        if paths.allow:
            yield "paths.allow", f"{place}.allow"
    else:
        yield ("paths.normalize" if paths.mode == "normalize" else "paths.verbatim"), place


def _pool(field: str, pool: Pool) -> Iterator[FeatureUse]:
    balance = pool.balance
    place = field if balance is None else f"{field}.balance"
    method = "round_robin" if balance is None else balance.method
    yield ("pool.balance.hash" if method is None else _BALANCE[method]), place
    weights = [endpoint.weight for endpoint in pool.endpoints]
    if method in _WEIGHTED and len({weight for weight in weights if weight}) > 1:
        yield _WEIGHTED[method], place
    for index, endpoint in enumerate(pool.endpoints):
        place = f"{field}.endpoints[{index}]"
        if endpoint.weight > 1:
            yield "pool.weights", f"{place}.weight"
        if endpoint.weight == 0:
            yield "pool.weights.zero", f"{place}.weight"
        if endpoint.backup:
            yield "pool.backup", f"{place}.backup"
        if not endpoint.address.is_ip:
            yield "pool.endpoint_names", f"{place}.address"
        elif ":" in endpoint.address.host:
            yield "pool.endpoint_ipv6", f"{place}.address"
    yield from _present(f"{field}.health", pool.health, _HEALTH)
    yield from _present(f"{field}.connections", pool.connections, _CONNECTIONS)
    if pool.protocol in ("http2", "grpc"):
        yield ("pool.protocol.http2" if pool.protocol == "http2" else "pool.protocol.grpc"), f"{field}.protocol"
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
        feature = "match.host.wildcard" if host.startswith("*.") else "match.host"
        found.append(("match.sni" if l4 else feature, f"{field}.hosts[{index}]"))
    if route.sources is not None:
        found.append(("route.sources", f"{field}.sources"))
    if route.priority:
        found.append(("route.priority", f"{field}.priority"))
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
        found.append(("route.retries.budget", f"{field}.retries.budget"))
    asked, answered, all_answered = route.request_headers, route.response_headers, model.response_headers
    found += _edits(f"{field}.request_headers", asked, _REQUEST_EDITS) if asked else ()
    found += _edits(f"{field}.response_headers", answered, _RESPONSE_EDITS) if answered else ()
    found += _edits("response_headers", all_answered, _RESPONSE_EDITS) if all_answered and not l4 else ()
    return found


def _forward(field: str, route: Route, targets: list[ForwardTarget]) -> list[FeatureUse]:
    found = [("route.forward", f"{field}.forward")]
    if len(targets) > 1:
        found.append(("route.forward.split", f"{field}.forward"))
    for index, target in enumerate(targets):
        if target.request_headers is not None:
            found.append(("route.forward.request_headers", f"{field}.forward[{index}].request_headers"))
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
    found = [] if path is None else [(FEATURES[type(path)], f"{field}.path")]
    return found + [(FEATURES[each.kind], f"{field}.{each.field}") for each in read_conditions(match)]


def _edits(field: str, edits: HeaderEdits, features: tuple[Feature, Feature, Feature]) -> Iterator[FeatureUse]:
    for key, feature in zip(("set", "add", "remove"), features, strict=True):
        if getattr(edits, key):
            yield feature, f"{field}.{key}"
