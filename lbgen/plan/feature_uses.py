"""The features that a topology uses, each with the field that asks for it.

`_set_fields` finds those of fields that are set, for every field of the models; the other functions are for features
that depend on values, on what a topology leaves out, or on nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from lbgen.engine_words import find_authentication
from lbgen.plan.conditions import FEATURES, read_conditions
from lbgen.plan.expand import ExpandedTopology, forwarded_pools
from lbgen.plan.features import VALUES, Feature, features_of_fields
from lbgen.plan.listener import ClientTimeouts
from lbgen.plan.path_conditions import read_path
from lbgen.plan.resolve_policies import client_timeouts
from lbgen.plan.values import read_placeholder
from lbgen.plan.written_texts import written_texts
from lbgen.spec.auth import Auth, ServiceUrl
from lbgen.spec.listener import Listener
from lbgen.spec.match import Match
from lbgen.spec.model import TopologyModel
from lbgen.spec.policy import Timeouts
from lbgen.spec.pool import Pool
from lbgen.spec.pydantic_errors import models_of
from lbgen.spec.route import Route

if TYPE_CHECKING:
    from pydantic import BaseModel

FeatureUse = tuple[Feature, str]
Written = Callable[[str], bool]

_WEIGHTED = ("least_connections", "source_hash")  # methods for which weights are a feature of their own
_ALWAYS = (
    "framing.malformed",
    "headers.hop_by_hop",
    "headers.connection_nominated",
    "route.websocket",
    "statuses.failures",
)
_UNDERSCORES = "headers_with_underscores"
_BUILT_IN = ("connect", "response", "idle")  # timeouts that have a default where none is written


def explicit_uses(expanded: ExpandedTopology, written: Written) -> Iterator[FeatureUse]:
    """Every use, in the order of the file, without fields of pools that no route uses.

    `written(field)` is whether the user's own file has the field; timeouts of L4 routes count only then (see
    `default_uses`).
    """
    model = expanded.model
    here = [(i, route) for i, route in enumerate(model.routes) if expanded.listeners[i]]  # the rest: other tiers'
    forwarding = {name for i, route in here if route.forward is not None for name in expanded.listeners[i]}
    routes = [(f"routes[{i}]", route, expanded.is_l4(i)) for i, route in here]
    of_l4, of_l7 = [[route for _, route, is_l4 in routes if is_l4 == l4] for l4 in (True, False)]
    for name, listener in model.listeners.items():
        yield from _listener(model, f"listeners.{name}", listener, name in forwarding)
    used, pools_of_l4, pools_of_l7 = expanded.used_pools, forwarded_pools(of_l4), forwarded_pools(of_l7)
    for name, pool in model.pools.items():
        if name in used:
            yield from _pool(f"pools.{name}", pool, l7=name in pools_of_l7, l4=name in pools_of_l4)
    if model.metrics is not None and _has_l4_over_tcp(model):
        yield "metrics.l4", "metrics"
    inherited = {l4: _times(model, "", None, l4, written) for l4 in (False, True)}
    for field, route, is_l4 in routes:
        yield from _route(field, route, is_l4)
        if route.forward is not None and route.timeouts is not None:
            yield from _times(model, field, route.timeouts, is_l4, written)
        elif route.forward is not None:
            yield from [(feature, place or field) for feature, place in inherited[is_l4]]
            inherited[is_l4] = [use for use in inherited[is_l4] if not use[1]]  # list the topology's own fields once
    yield from _defaults(model, of_l7)
    for written_text in written_texts(model):
        if written_text.route is None or not expanded.is_l4(written_text.route):
            for mention in written_text.mentions:
                yield VALUES[read_placeholder(mention).fact], written_text.field
    for name, engine in model.engines.items():
        for place, text in engine.verbatim.items():
            yield "engines.verbatim", f"engines.{name}.{place}"
            if find_authentication(text) is not None:
                yield "engines.verbatim.auth", f"engines.{name}.{place}"
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
                yield f"timeouts.{key}", f"routes[{index}].timeouts.{key}"


def _has_l4_over_tcp(model: TopologyModel) -> bool:
    return any(listener.mode == "l4" and listener.protocol != "udp" for listener in model.listeners.values())


def _other_client_times(model: TopologyModel, listener: Listener) -> bool:
    """Whether client timeouts differ from the defaults."""
    return client_timeouts(listener.timeouts, model.client_timeouts) != ClientTimeouts()


def _listener(model: TopologyModel, field: str, listener: Listener, forwards: bool) -> Iterator[FeatureUse]:
    instead: dict[Feature, Feature] = {}
    if listener.mode == "l4":
        yield ("listener.l4.udp" if listener.protocol == "udp" else "listener.l4.tcp"), field
        instead["listener.max_connections"] = "listener.max_connections.l4"
    else:
        yield from _l7_listener(model, field, listener, forwards)
    if listener.address == "::":
        yield "listener.address.dual_stack", f"{field}.address"
    if listener.tls is not None and listener.tls.mode == "passthrough":
        instead["listener.tls"] = "listener.tls.passthrough"
    for feature, place in _set_fields(listener, "listener", field):
        yield instead.get(feature, feature), place


def _l7_listener(model: TopologyModel, field: str, listener: Listener, forwards: bool) -> Iterator[FeatureUse]:
    yield "listener.l7", field
    yield "framing", field
    yield "statuses", field
    if forwards:
        headers = model.forwarded_headers
        if headers is None or headers.x_forwarded:
            yield "forwarded_headers", field if headers is None else "forwarded_headers"
        if headers is not None:
            yield from ((f"forwarded_headers.{x}",) * 2 for x in ("real_ip", "forwarded") if getattr(headers, x))
        if model.request_id is not False:
            yield "request_id", field if model.request_id is None else "request_id"
    if listener.http2 or (listener.http2 is None and listener.tls is not None):
        yield "listener.http2", f"{field}.tls" if listener.http2 is None else f"{field}.http2"
    if listener.client_ip is not None:
        rfc7239 = listener.client_ip.header == "forwarded"
        yield f"listener.client_ip{'.forwarded' if rfc7239 else ''}", f"{field}.client_ip"
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


def _pool(field: str, pool: Pool, *, l7: bool, l4: bool) -> Iterator[FeatureUse]:
    """`l7`, `l4`: whether such routes use it."""
    balance = pool.balance
    place = field if balance is None else f"{field}.balance"
    method = "round_robin" if balance is None else balance.method or "hash"
    yield f"pool.balance.{method}", place
    if method in _WEIGHTED and len({endpoint.weight for endpoint in pool.endpoints if endpoint.weight}) > 1:
        yield f"pool.balance.{method}.weights", place
    for index, endpoint in enumerate(pool.endpoints):
        place = f"{field}.endpoints[{index}]"
        if endpoint.weight != 1:
            yield ("pool.weights" if endpoint.weight else "pool.weights.zero"), f"{place}.weight"
        if endpoint.backup:
            yield "pool.backup", f"{place}.backup"
        key, address = endpoint.place
        if not address.is_ip:
            yield "pool.endpoint_names", f"{place}.{key}"
        elif ":" in address.host:
            yield "pool.endpoint_ipv6", f"{place}.{key}"
    if pool.protocol in ("http2", "grpc"):
        yield f"pool.protocol.{pool.protocol}", f"{field}.protocol"
    for feature, place in _set_fields(pool, "pool", field):
        if l7 or feature != "pool.proxy_protocol":
            yield feature, place
        if l4 and feature == "pool.proxy_protocol":
            yield "pool.proxy_protocol.l4", place


def _route(field: str, route: Route, l4: bool) -> list[FeatureUse]:
    found = _set_fields(route, "route", field)
    for index, host in enumerate(route.hosts or ()):
        feature = "match.host.wildcard" if host.startswith("*.") else "match.host"
        found.append(("match.sni" if l4 else feature, f"{field}.hosts[{index}]"))
    for index, match in enumerate(route.match or ()):
        found += _match(f"{field}.match[{index}]", match)
    if route.forward is not None and len(route.forward) > 1:
        found.append(("route.forward.split", f"{field}.forward"))
    if route.auth is not None:
        found += _asked_services(f"{field}.auth", route.auth)
    return found


def _asked_services(field: str, auth: Auth) -> Iterator[FeatureUse]:
    """Those of the pools that are made of an auth's URLs."""
    urls = (("forward.url", auth.forward and auth.forward.url), ("jwt.jwks", auth.jwt and auth.jwt.jwks))
    for place, url in urls:
        if isinstance(url, ServiceUrl):
            at = f"{field}.{place}"
            yield "pool.balance.round_robin", at
            if url.scheme == "https":
                yield "pool.tls", at
            if not url.address.is_ip:
                yield "pool.endpoint_names", at
            elif ":" in url.address.host:
                yield "pool.endpoint_ipv6", at


def _defaults(model: TopologyModel, routes: list[Route]) -> Iterator[FeatureUse]:
    """What the root asks for: for L7 listeners and routes that leave it out, and by fields of its own."""
    listeners = [each for each in model.listeners.values() if each.mode == "l7"]
    for feature, place in _set_fields(model, "listener", ""):
        key = place.partition(".")[0]
        if key != "tls" and any(getattr(each, key) is None for each in listeners):
            yield feature, place
    for feature, place in _set_fields(model, "route", ""):
        key = place.partition(".")[0]  # a route adds its own headers to those of the root
        open_ = routes if key == "response_headers" else [x for x in routes if x.forward and getattr(x, key) is None]
        if open_:
            yield feature, place
    yield from _set_fields(model, "", "")


def _times(model: TopologyModel, field: str, times: Timeouts | None, l4: bool, written: Written) -> list[FeatureUse]:
    """Those of a route that forwards and has these `times`; the ones at `field` itself are built-in defaults."""
    found = []
    for key in Timeouts.model_fields:
        own = None if times is None else getattr(times, key)
        above = None if model.timeouts is None else getattr(model.timeouts, key)
        if key not in _BUILT_IN and not (above if own is None else own):
            continue  # no limit
        if own is not None:
            found.append((f"timeouts.{key}", f"{field}.timeouts.{key}"))
        elif above is not None:
            if not l4 or (key in ("connect", "idle") and written(f"timeouts.{key}")):
                found.append((f"timeouts.{key}", f"timeouts.{key}"))
        elif not l4:
            found.append((f"timeouts.{key}", field))
    return found


def _match(field: str, match: Match) -> list[FeatureUse]:
    path = read_path(match)
    found = [] if path is None else [(FEATURES[type(path)], f"{field}.path")]
    return found + [(FEATURES[each.kind], f"{field}.{each.field}") for each in read_conditions(match)]


def _set_fields(thing: BaseModel, path: str, field: str) -> list[FeatureUse]:
    """The features of those fields of `thing` that are set, and of the fields inside them."""
    found, values = list[FeatureUse](), vars(thing)
    for key, usual, name, is_feature, has_parts in _fields(type(thing), path):
        value = values[key]
        if value is None or value is False or (usual is not None and value == usual):
            continue
        place = f"{field}.{key}" if field else key
        if is_feature:
            found.append((name, place))
        if has_parts and isinstance(value, list):
            for index, each in enumerate(value):
                found += _set_fields(each, name, f"{place}[{index}]")
        elif has_parts:
            found += _set_fields(value, name, place)
    return found


@cache
def _fields(model: type[BaseModel], path: str) -> tuple[tuple[str, object, Feature, bool, bool], ...]:
    """The fields that are features, or have some inside: key, default, name, and whether it is one and has some."""
    found = []
    for key, field in model.model_fields.items():
        name, features = f"{path}.{key}".lstrip("."), features_of_fields()
        has_parts = any(each.startswith(f"{name}.") for each in features) and any(models_of(field.annotation))
        if name in features or has_parts:
            found.append((key, field.get_default(call_default_factory=True), name, name in features, has_parts))
    return tuple(found)
