"""Every field of the spec, set in topologies of several kinds: what was before, and what is after."""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel

from lbgen.spec.listener import Listener
from lbgen.spec.model import TopologyModel
from lbgen.spec.pool import Endpoint, Pool
from lbgen.spec.route import ForwardTarget, Route

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent
OBJECTS = {
    "top": TopologyModel,
    "listener": Listener,
    "pool": Pool,
    "endpoint": Endpoint,
    "route": Route,
    "target": ForwardTarget,
}
# Mappings that hold one of their keys: a field that is set takes the place of the other.
ONE_OF = {"Auth", "Balance", "HashKey", "PathMatch", "ValueMatch", "HeaderMatch", "RateKey", "Rewrite"}
# And fields that take the place of one other.
INSTEAD = {("Endpoint", "service"): "address", ("ForwardAuth", "pool"): "url"}
# Mappings with the fields of routes and pools, which are set there; that they are inherited: plan/test_inheritance.py.
INHERITED = {"policies", "defaults"}
# Objects of a context, whose fields are set there.
STRUCTURE = {"listeners", "pools", "routes"}
LISTED = {(Pool, "endpoints"), (Route, "forward")}
Data = dict[str, Any]


def read(name: str) -> Any:
    return yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))


CONTEXTS: dict[str, Data] = read("contexts")
VALUES: dict[str, dict[str, list[Any]]] = read("values")


def base(context: str) -> Data:
    return {"version": 1, "name": "fields", **copy.deepcopy(CONTEXTS[context]["topology"])}


@dataclass(frozen=True)
class Change:
    """A field that is set, in an object of a context or deeper; `path` is it as findings name it."""

    object: str
    path: str
    model: str
    key: str
    value: Any
    before: Data
    after: Data

    @property
    def name(self) -> str:
        return f"{self.model}.{self.key}"

    def under(self, fields: Iterable[str]) -> bool:
        """Whether one of `fields` is this one, or a mapping that it is in; not the object that has it."""
        return any(len(x) > len(self.object) and re.match(rf"{re.escape(x)}(?![^.\[])", self.path) for x in fields)

    def within(self, fields: Iterable[str]) -> bool:
        """Whether one of `fields` is this one, or a mapping that it is in; not a whole listener, pool or route."""
        deep = (x for x in fields if not re.fullmatch(r"(listeners|pools)\.[^.]+|routes\[[0-9]+\]", x))
        return any(re.match(rf"{re.escape(x)}(?![^.\[])", self.path) for x in deep)


def at(data: Any, path: str) -> Any:
    """What stands at a path such as `routes[0].forward[0]`."""
    for key, index in re.findall(r"([^.\[\]]+)|\[([0-9]+)\]", path):
        data = data[key] if key else data[int(index)]
    return data


def changes(context: str) -> Iterator[Change]:
    """Each field of each object of the context with each of its values, those inside mappings too."""
    for kind, path in CONTEXTS[context]["at"].items():
        yield from _of(base(context), path, path, OBJECTS[kind])


def _of(before: Data, thing: str, path: str, model: type[BaseModel]) -> Iterator[Change]:
    for key, field in model.model_fields.items():
        if model is OBJECTS["top"] and key in STRUCTURE:
            continue
        place = f"{path}.{key}" if path else key
        for value in values(model, key):
            after = copy.deepcopy(before)
            if model.__name__ in ONE_OF:
                at(after, path).clear()
            at(after, path).pop(INSTEAD.get((model.__name__, key)), None)
            at(after, path)[key] = copy.deepcopy(value)
            if after != before:
                yield Change(thing, place, model.__name__, key, value, before, after)
            inner, steps = nested(field.annotation) if key not in INHERITED else (None, None)
            if inner is not None and isinstance(value, dict | list) and (model, key) not in LISTED:
                for step in steps(value):
                    yield from _of(after, thing, f"{place}{step}", inner)


def values(model: type[BaseModel], key: str) -> list[Any]:
    """Those of `values.yaml`, else the examples of the field. KeyError for a field that nobody gave a value."""
    words = literals(model.model_fields[key].annotation)
    if words:
        return words
    given = VALUES.get(model.__name__, {})
    return given[key] if key in given or not model.model_fields[key].examples else model.model_fields[key].examples


def literals(annotation: Any) -> list[Any]:
    """All values of a field that takes words, or true and false."""
    if annotation is bool:
        return [True, False]
    origin = get_origin(annotation)
    if origin is Literal:
        return list(get_args(annotation))
    if origin in (Union, UnionType):
        return [word for part in get_args(annotation) for word in literals(part)]
    return literals(get_args(annotation)[0]) if origin is Annotated else []


def nested(annotation: Any) -> tuple[type[BaseModel] | None, Any]:
    """The model of a field's value, and the steps to each of them: `""`, `[0]` or `.name`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, lambda value: [""] if isinstance(value, dict) else []
    origin = get_origin(annotation)
    parts = get_args(annotation)
    if origin in (Union, UnionType):
        found = [nested(part) for part in parts]
        return next((each for each in found if each[0] is not None), (None, None))
    if origin is Annotated:
        return nested(parts[0])
    if origin is list:
        return nested(parts[0])[0], lambda value: [f"[{n}]" for n, each in enumerate(value) if isinstance(each, dict)]
    if origin is dict:
        return nested(parts[1])[0], lambda value: [f".{name}" for name, each in value.items() if isinstance(each, dict)]
    return None, None
