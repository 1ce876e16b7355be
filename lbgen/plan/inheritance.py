"""What routes and pools inherit: `defaults`, policies of listeners, policies of routes, laid under their own fields.

Later layers win, a route's own fields over all. Of mappings whose settings are independent (`_BY_KEY`) and of error
pages each key is inherited by itself, of header edits each header, any other field as a whole. A field that is set to
`none` holds nothing, whatever the layers below say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.expand import expand
from lbgen.plan.field_scope import FORWARD_ONLY, GUARDS, L7_CONNECTIONS, L7_POOL, L7_ROUTE, L7_TIMES, TCP_POOL
from lbgen.spec.policy import Buffering, Timeouts
from lbgen.spec.pool import Connections, Health, PoolSettings
from lbgen.spec.route import HeaderEdits, RoutePolicies

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lbgen.plan.expand import ExpandedTopology
    from lbgen.spec.load import Topology
    from lbgen.spec.model import TopologyModel
    from lbgen.spec.pool import Pool
    from lbgen.spec.route import Route

_BY_KEY = (Timeouts, Buffering, Health, Connections)
_Layer = tuple[str, "BaseModel"]  # its place, and its fields
_Model = TypeVar("_Model", bound="BaseModel")


class _Field(Struct, frozen=True):
    """The value of one field so far; `places` are those where it and its parts are written, by what follows its path,
    such as `.response`."""

    value: object
    places: dict[str, str]


def with_inherited(topology: Topology) -> Topology:
    """`topology` with the fields that its routes and pools inherit as their own, and the places of these.

    Unknown names are left out, and a route whose listeners disagree (`find_conflict`) stays as it is written: checks
    report both.
    """
    model = topology.model
    if topology.marks.origins or not _inherits(model):
        return topology
    expanded, origins = expand(model), dict[str, str]()
    routes = [_route(expanded, index, route, origins) for index, route in enumerate(model.routes)]
    pools = {name: _pool(expanded, name, pool, origins) for name, pool in model.pools.items()}
    return replace(
        topology,
        model=model.model_copy(update={"routes": routes, "pools": pools}),
        marks=replace(topology.marks, origins=origins),
    )


def find_conflict(expanded: ExpandedTopology, index: int) -> tuple[str, str, str] | None:
    """Two listeners of a route from which it would inherit different policies, and a field that differs."""
    route, model = expanded.model.routes[index], expanded.model
    names = _listeners_by_policies(model, expanded.listeners[index])
    if len(names) < 2:
        return None
    own = {key: getattr(route, key) for key in RoutePolicies.model_fields}
    merged = [(name, _merged(_layers(expanded, index, route, name), "", route)) for name in names]
    first, *others = [(name, own | _values(fields)) for name, fields in merged]
    differs = ((name, key) for name, values in others for key in own if values[key] != first[1][key])
    return next(((first[0], name, key) for name, key in differs), None)


def _inherits(model: TopologyModel) -> bool:
    return (
        model.defaults is not None
        or any(listener.policies or listener.auth for listener in model.listeners.values())
        or any(route.policies for route in model.routes)
    )


def _listeners_by_policies(model: TopologyModel, names: Sequence[str]) -> list[str]:
    """The first listener of all that say the same."""
    found: list[str] = []
    for name in names:
        this = model.listeners[name]
        others = (model.listeners[other] for other in found)
        if not any((this.policies or [], this.auth) == (other.policies or [], other.auth) for other in others):
            found.append(name)
    return found


def _route(expanded: ExpandedTopology, index: int, route: Route, origins: dict[str, str]) -> Route:
    if find_conflict(expanded, index) is not None:
        return route
    listener = next(iter(expanded.listeners[index]), None)
    field = f"routes[{index}]"
    merged = _merged(_layers(expanded, index, route, listener), field, route)
    origins |= _origins(merged, field)
    return route.model_copy(update=_values(merged))


def _pool(expanded: ExpandedTopology, name: str, pool: Pool, origins: dict[str, str]) -> Pool:
    defaults = expanded.model.defaults
    if defaults is None or defaults.pool is None:
        return pool
    field = f"pools.{name}"
    users = [n for n, route in enumerate(expanded.model.routes) if any(to.pool == name for to in route.forward or ())]
    l4 = [n for n in users if expanded.is_l4(n)]
    merged = _merged([("defaults.pool", _fit_pool(defaults.pool, l4=bool(l4), udp=_is_udp(expanded, l4)))], field, pool)
    origins |= _origins(merged, field)
    return pool.model_copy(update=_values(merged))


def _layers(expanded: ExpandedTopology, index: int, route: Route, listener: str | None) -> Iterator[_Layer]:
    """What a route inherits on that listener, lowest first."""
    model, idle = expanded.model, () if route.forward is not None else FORWARD_ONLY
    if model.defaults is not None and model.defaults.route is not None:
        fitting = model.defaults.route
        if expanded.is_l4(index):
            fitting = _fit_l4(fitting, udp=_is_udp(expanded, [index]))
        yield "defaults.route", _without(fitting, idle)
    if listener is not None:
        yield from _named(model, model.listeners[listener].policies, idle)
        if (auth := model.listeners[listener].auth) is not None:
            yield f"listeners.{listener}", RoutePolicies.model_construct(_fields_set={"auth"}, auth=auth)
    yield from _named(model, route.policies, idle)


def _named(model: TopologyModel, names: Sequence[str] | None, dropped: Iterable[str]) -> Iterator[_Layer]:
    for name in names or ():
        if name in model.policies:
            yield f"policies.{name}", _without(model.policies[name], dropped)


def _fit_l4(defaults: RoutePolicies, *, udp: bool) -> RoutePolicies:
    """The defaults that concern connections or datagrams; one that guards stays, as it may not be lost."""
    fitting = _without(defaults, [key for key in L7_ROUTE if key not in GUARDS])
    return _with_part(fitting, "timeouts", (*L7_TIMES, "connect") if udp else L7_TIMES)


def _fit_pool(defaults: PoolSettings, *, l4: bool, udp: bool) -> PoolSettings:
    """The defaults that concern the routes of a pool."""
    if not l4:
        return defaults
    active = None if defaults.health is None else defaults.health.active
    if defaults.health is not None and active is not None:  # a connection is all that each endpoint of l4 accepts
        health = defaults.health.model_copy(update={"active": _without(active, ("path", "expect"))})
        defaults = defaults.model_copy(update={"health": health})
    by_request = ("balance",) if defaults.balance is not None and defaults.balance.hash is not None else ()
    fitting = _without(defaults, (*L7_POOL, *by_request, *(TCP_POOL if udp else ())))
    fitting = _with_part(fitting, "connections", L7_CONNECTIONS)
    return _with_part(fitting, "health", ("active",)) if udp and active is not None and active.port is None else fitting


def _is_udp(expanded: ExpandedTopology, routes: Iterable[int]) -> bool:
    listeners = expanded.model.listeners
    return any(listeners[name].protocol == "udp" for index in routes for name in expanded.listeners[index])


def _without(model: _Model, keys: Iterable[str]) -> _Model:
    """`model` where these fields are not set."""
    kept = [key for key in model.model_fields_set if key not in set(keys)]
    if len(kept) == len(model.model_fields_set):
        return model
    return type(model).model_construct(_fields_set=set(kept), **{key: getattr(model, key) for key in kept})


def _with_part(model: _Model, key: str, dropped: Iterable[str]) -> _Model:
    """`model` where these fields of the mapping at `key` are not set."""
    part = getattr(model, key)
    if part is None:
        return model
    rest = _without(part, dropped)
    return model.model_copy(update={key: rest}) if rest.model_fields_set else _without(model, (key,))


def _merged(layers: Iterable[_Layer], field: str, own: BaseModel) -> dict[str, _Field]:
    """The fields that the layers set, and of the object's own those that they set too; lowest first."""
    merged: dict[str, _Field] = {}
    for place, layer in layers:
        for key in layer.model_fields_set:
            merged[key] = _over(merged.get(key), getattr(layer, key), f"{place}.{key}")
    for key in own.model_fields_set & merged.keys():
        merged[key] = _over(merged[key], getattr(own, key), f"{field}.{key}")
    return merged


def _over(lower: _Field | None, value: object, place: str) -> _Field:
    """`value`, which is written at `place`, over what the layers below say."""
    below = None if lower is None else lower.value
    if isinstance(value, HeaderEdits):
        none = HeaderEdits.model_construct(set={}, add={}, remove=[])
        edits = below if isinstance(below, HeaderEdits) else none
        return _edits(edits, {} if lower is None else lower.places, value, place)
    if isinstance(value, dict):
        own = {f".{key}": f"{place}.{key}" for key in value}
        if lower is None or not isinstance(below, dict):
            return _Field(value, {"": place, **own})
        return _Field({**below, **value}, {**lower.places, "": place, **own})
    if not isinstance(value, _BY_KEY):
        return _Field(value, {"": place})
    places = {f".{key}": f"{place}.{key}" for key in value.model_fields_set}
    if lower is None or not isinstance(below, _BY_KEY):
        return _Field(value, {"": place, **places})
    changed = {key: getattr(value, key) for key in value.model_fields_set}
    return _Field(below.model_copy(update=changed), {**lower.places, "": place, **places})


def _edits(below: HeaderEdits, places: dict[str, str], value: HeaderEdits, place: str) -> _Field:
    """The edits of `value`, and those of `below` for other headers."""
    own = {*value.set, *value.add, *value.remove}
    found, removed = {"": place}, list[str]()
    for edits, where in ((below, places), (value, None)):
        for key, names in (("set", edits.set), ("add", edits.add)):
            for name in names:
                if where is None or name not in own:
                    found[f".{key}.{name}"] = f"{place}.{key}.{name}" if where is None else where[f".{key}.{name}"]
        for index, name in enumerate(edits.remove):
            if where is None or name not in own:
                step = f".remove[{index}]"
                found[f".remove[{len(removed)}]"] = f"{place}{step}" if where is None else where[step]
                removed.append(name)
    merged = {
        "set": {**{name: text for name, text in below.set.items() if name not in own}, **value.set},
        "add": {**{name: text for name, text in below.add.items() if name not in own}, **value.add},
        "remove": removed,
    }
    return _Field(value.model_copy(update=merged), found)


def _values(merged: dict[str, _Field]) -> dict[str, object]:
    """The fields that hold something."""
    return {key: found.value for key, found in merged.items() if found.value is not None}


def _origins(merged: dict[str, _Field], field: str) -> dict[str, str]:
    """Where each field, and each part of one, is written that is not written at its own place."""
    every = {f"{field}.{key}{part}": place for key, each in merged.items() for part, place in each.places.items()}
    return {path: place for path, place in every.items() if path != place}
