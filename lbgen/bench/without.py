"""A topology without one of its features at a time, where the request that is measured can still be sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from lbgen.bench.target import LoadTarget, choose_target
from lbgen.diagnostics import LbgenError
from lbgen.plan.field_scope import fields_but
from lbgen.plan.model import Mode, Plan
from lbgen.plan.request import Request
from lbgen.plan.resolve import plan as resolve
from lbgen.spec.listener import Listener
from lbgen.spec.load import Topology, load
from lbgen.spec.pool import PoolSettings
from lbgen.spec.route import Route, RouteAction

_UNREACHED = ("LB203", "LB204")
OTHER_ROUTES, L7 = "other routes", "layer 7"
# Of profiles; the way to be without them is a value.
_OFF: Mapping[str, object] = {
    "access_log": "none",
    "forwarded_headers": False,
    "request_id": False,
}
# Without these the request could not be sent, or would be another one.
_LISTENER = fields_but(Listener, *("port", "ports", "address", "tier", "mode", "protocol", "http2", "proxy_protocol"))
_ROUTE = fields_but(Route, *RouteAction.model_fields.keys() - {"policies", "rewrite"})
_POOL = fields_but(PoolSettings, "tls", "protocol", "proxy_protocol", "stand_ins")
_CONDITIONS = ("methods", "headers", "query", "cookies")


class Variant(Struct, frozen=True):
    """What is left without `feature`, a field of the topology, and the request that is sent to it."""

    feature: str
    plan: Plan
    target: LoadTarget


def variants(topology: Topology, whole: Plan, target: LoadTarget) -> tuple[Variant, ...]:
    """One for each feature that the measured request meets, in the order of the topology's layers; without those whose
    removal changes nothing, is not legal by itself, or leaves the request unforwarded."""
    found = []
    request = Request("GET", target.target, target.headers, target.listener)
    for feature, changed in _changed(topology, whole, target):
        try:
            feature, plan = _resolved(feature, changed)
            if plan.listener(target.listener).mode is Mode.L4:
                own = replace(choose_target(plan, None, target.listener), target=target.target, headers=target.headers)
            else:
                own = choose_target(plan, request)
        except LbgenError:
            continue
        if replace(plan, spans=whole.spans) != whole:
            found.append(Variant(feature, plan, own))
    return tuple(found)


def _resolved(feature: str, changed: Topology) -> tuple[str, Plan]:
    """The plan; without the routes that nothing reaches any more, which the feature's name then holds. Raises
    LbgenError."""
    try:
        return feature, resolve(changed)
    except LbgenError as error:
        idle = sorted({each.field for each in error.diagnostics if each.code in _UNREACHED}, reverse=True)
        if len(idle) < len({each.field for each in error.diagnostics}):
            raise
        numbers = sorted(int(field[len("routes[") : -1]) for field in idle)
        names = ", ".join(changed.model.routes[number].name for number in numbers)
        return f"{feature} and {names}", resolve(changed.without(*(f"routes[{n}]" for n in reversed(numbers))))


def _changed(topology: Topology, whole: Plan, target: LoadTarget) -> Iterator[tuple[str, Topology]]:
    """Each feature, and the topology without it."""
    model = topology.model
    index = next(i for i, route in enumerate(model.routes) if route.name == target.route)
    pool = next(p.name for p in whole.pools if any(x.field == target.endpoint for x in p.endpoints))
    written = [
        *((f"listeners.{target.listener}.{field}",) * 2 for field in _LISTENER),
        *((f"routes[{index}].{field}", f"routes[{target.route}].{field}") for field in _ROUTE),
        *((f"pools.{pool}.{field}",) * 2 for field in _POOL),
    ]
    for field, value in _OFF.items():
        yield from _legal(field, partial(topology.replace, {field: value}))
    if model.metrics is not None:
        yield from _legal("metrics", partial(topology.without, "metrics"))
    for place, path in written:
        if topology.wrote(place):
            yield from _legal(path, partial(topology.without, path))
    if whole.listener(target.listener).mode is Mode.L4:
        return
    for number, match in enumerate(model.routes[index].match or ()):
        place = f"routes[{target.route}].match[{number}]"
        for field in _CONDITIONS:
            if getattr(match, field):
                yield from _legal(f"{place}.{field}", partial(topology.without, f"{place}.{field}"))
        if match.path is not None and match.path.prefix is None:
            path = f"{place}.path"
            yield from _legal(path, partial(topology.replace, {path: {"prefix": "/"}}))
    targets = getattr(whole.route(target.route).action, "targets", ())
    if len(targets) > 1:
        forward = f"routes[{target.route}].forward"
        yield from _legal(forward, partial(topology.replace, {forward: pool}))
    others = [f"routes[{x.name}]" for x in model.routes if x.name != target.route and _on(x.listeners, target, whole)]
    if others:
        yield from _legal(OTHER_ROUTES, partial(topology.without, *others))
    endpoints = [{"address": f"{x.host}:{x.port}"} for x in whole.pool(pool).endpoints]
    bare = {
        "version": 1,
        "name": topology.name,
        "listeners": {target.listener: {"port": whole.listener(target.listener).port, "mode": "l4"}},
        "pools": {pool: {"endpoints": endpoints}},
        "routes": [{"name": target.route, "listeners": [target.listener], "forward": pool}],
    }
    yield from _legal(L7, partial(load, bare))


def _legal(feature: str, change: Callable[[], Topology]) -> Iterator[tuple[str, Topology]]:
    """The changed topology; nothing where something else needs the feature."""
    try:
        yield feature, change()
    except LbgenError:
        return


def _on(listeners: list[str] | None, target: LoadTarget, whole: Plan) -> bool:
    """Whether a route is of the listener that is measured, and of no other."""
    if listeners is not None:
        return listeners == [target.listener]
    return [each.name for each in whole.listeners if each.mode is Mode.L7] == [target.listener]
