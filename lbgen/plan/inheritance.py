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

from lbgen.plan.expand import ExpandedTopology, expand
from lbgen.plan.field_scope import FORWARD_ONLY, GUARDS, L7_CONNECTIONS, L7_POOL, L7_ROUTE, L7_TIMES, TCP_POOL
from lbgen.spec.listener import Listener
from lbgen.spec.load import Topology
from lbgen.spec.model import TopologyModel
from lbgen.spec.policy import Buffering, Timeouts
from lbgen.spec.pool import Connections, Health, Pool, PoolSettings
from lbgen.spec.route import HeaderEdits, Route, RoutePolicies

if TYPE_CHECKING:
    from pydantic import BaseModel

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
    inheritance = Inheritance(expanded)
    routes = [_route(inheritance, index, origins) for index in range(len(model.routes))]
    pools = {name: _pool(expanded, name, pool, origins) for name, pool in model.pools.items()}
    return replace(
        topology,
        model=model.model_copy(update={"routes": routes, "pools": pools}),
        marks=replace(topology.marks, origins=origins),
    )


class Inheritance:
    """What the routes of a topology inherit; layers that many routes have alike are merged once."""

    def __init__(self, expanded: ExpandedTopology) -> None:
        self.expanded = expanded
        self._merged: dict[tuple[object, ...], dict[str, _Field]] = {}

    def find_conflict(self, index: int) -> tuple[str, str, str] | None:
        """Two listeners of a route from which it would inherit different policies, and a field that differs."""
        model = self.expanded.model
        route, names = model.routes[index], _first_of_each(model, self.expanded.listeners[index])
        if len(names) < 2:
            return None
        own = {key: getattr(route, key) for key in RoutePolicies.model_fields}
        first, *others = [(name, own | _values(self.merged(index, name))) for name in names]
        differs = ((name, key) for name, values in others for key in own if values[key] != first[1][key])
        return next(((first[0], name, key) for name, key in differs), None)

    def merged(self, index: int, listener: str | None) -> dict[str, _Field]:
        """The fields that a route inherits on that listener, with its own over them."""
        route = self.expanded.model.routes[index]
        l4 = self.expanded.is_l4(index)
        key = (listener, tuple(route.policies or ()), route.forward is None, l4, l4 and _is_udp(self.expanded, [index]))
        if key not in self._merged:
            self._merged[key] = _merge(_layers(self.expanded, index, route, listener))
        return _with_own(self._merged[key], f"routes[{index}]", route)


def _inherits(model: TopologyModel) -> bool:
    return (
        model.defaults is not None
        or any(listener.policies or listener.auth for listener in model.listeners.values())
        or any(route.policies for route in model.routes)
    )


def _first_of_each(model: TopologyModel, names: Sequence[str]) -> list[str]:
    """The first listener of all that say the same."""
    if len(names) < 2:
        return list(names)
    found: list[str] = []
    for name in names:
        this = _inherited_from(model.listeners[name])
        if all(_inherited_from(model.listeners[other]) != this for other in found):
            found.append(name)
    return found


def _inherited_from(listener: Listener) -> tuple[object, ...]:
    """What of a listener decides what its routes inherit."""
    return listener.policies or [], listener.auth, listener.error_pages


def _route(inheritance: Inheritance, index: int, origins: dict[str, str]) -> Route:
    route, listeners = inheritance.expanded.model.routes[index], inheritance.expanded.listeners[index]
    if inheritance.find_conflict(index) is not None:
        return route
    merged = inheritance.merged(index, next(iter(listeners), None))
    if not merged:
        return route
    origins |= _origins(merged, f"routes[{index}]")
    return route.model_copy(update=_values(merged))


def _pool(expanded: ExpandedTopology, name: str, pool: Pool, origins: dict[str, str]) -> Pool:
    defaults = expanded.model.defaults
    if defaults is None or defaults.pool is None:
        return pool
    field = f"pools.{name}"
    users = [n for n, route in enumerate(expanded.model.routes) if any(to.pool == name for to in route.forward or ())]
    l4 = [n for n in users if expanded.is_l4(n)]
    below = _merge([("defaults.pool", _fit_pool(defaults.pool, l4=bool(l4), udp=_is_udp(expanded, l4)))])
    merged = _with_own(below, field, pool)
    origins |= _origins(merged, field)
    return pool.model_copy(update=_values(merged))


def _layers(expanded: ExpandedTopology, index: int, route: Route, listener: str | None) -> list[_Layer]:
    """What a route inherits on that listener, lowest first."""
    model, idle = expanded.model, () if route.forward is not None else FORWARD_ONLY
    layers: list[_Layer] = []
    if model.defaults is not None and model.defaults.route is not None:
        fitting = model.defaults.route
        if expanded.is_l4(index):
            fitting = _fit_l4(fitting, udp=_is_udp(expanded, [index]))
        layers.append(("defaults.route", _without(fitting, idle)))
    if listener is not None:
        layers += _named(model, model.listeners[listener].policies, idle)
        layers.append((f"listeners.{listener}", _of_listener(model.listeners[listener], layers)))
    return [*layers, *_named(model, route.policies, idle)]


def _of_listener(listener: Listener, below: Iterable[_Layer]) -> RoutePolicies:
    """The fields of a listener that hold for its routes. Its error pages, which plans have by themselves, are among
    them where a layer below has some, as they win over these."""
    pages = listener.error_pages if any("error_pages" in layer.model_fields_set for _, layer in below) else None
    found = {key for key, value in (("auth", listener.auth), ("error_pages", pages)) if value is not None}
    return RoutePolicies.model_construct(_fields_set=found, auth=listener.auth, error_pages=pages)


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


def _merge(layers: Iterable[_Layer]) -> dict[str, _Field]:
    """The fields that the layers set, lowest first."""
    merged: dict[str, _Field] = {}
    for place, layer in layers:
        for key in layer.model_fields_set:
            merged[key] = _over(merged.get(key), getattr(layer, key), f"{place}.{key}")
    return merged


def _with_own(below: dict[str, _Field], field: str, own: BaseModel) -> dict[str, _Field]:
    """The fields of `below`, with those over them that the object at `field` sets itself."""
    keys = own.model_fields_set & below.keys()
    return {**below, **{key: _over(below[key], getattr(own, key), f"{field}.{key}") for key in keys}}


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
    """The values of the fields; None of one that is set to `none`."""
    return {key: found.value for key, found in merged.items()}


def _origins(merged: dict[str, _Field], field: str) -> dict[str, str]:
    """Where each field, and each part of one, is written that is not written at its own place."""
    every = {f"{field}.{key}{part}": place for key, each in merged.items() for part, place in each.places.items()}
    return {path: place for path, place in every.items() if path != place}
