"""The effective topology: profile, defaults and variables written out, each value with its origin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from msgspec import Meta, Struct

from lbgen import resources
from lbgen.diagnostics import Span, counted
from lbgen.json_types import Record
from lbgen.plan.inheritance import with_inherited
from lbgen.spec.dump import Reference, lines
from lbgen.spec.load import Topology
from lbgen.spec.variables import names_in

if TYPE_CHECKING:
    from pydantic import JsonValue

# A variable with one of these words in its name is taken for a secret, whose value is not printed.
_SECRET = re.compile("SECRET|TOKEN|PASSWORD|PASSWD|CREDENTIAL|PRIVATE|(?:^|_)KEY", re.IGNORECASE)

# What is not left of a topology that has what it includes and inherits.
_EXPANDED: dict[str, Any] = {
    **dict.fromkeys(("include", "policies", "defaults"), True),
    "routes": {"__all__": {"policies"}},
    "listeners": {"__all__": {"policies"}},
}
_NOTHING = object()


class Source(StrEnum):
    """The kind of place that a value comes from."""

    FILE = "file"  # the topology, an overlay, an included file, or a setting
    PROFILE = "profile"
    DEFAULT = "default"


class ValueRecord(Record):
    """One value of the effective topology."""

    field: str
    value: Any
    source: Source
    file: NotRequired[Annotated[str, Meta(description="Where it is written; not for a default.")]]
    line: NotRequired[int]
    column: NotRequired[int]
    variables: NotRequired[Annotated[list[str], Meta(description="The variables that the value refers to.")]]


class Value(Struct, frozen=True):
    """One value. `span` is None for a default; `variables` are those that the value refers to."""

    field: str
    value: JsonValue
    source: Source
    span: Span | None
    variables: tuple[str, ...] = ()

    def as_dict(self) -> ValueRecord:
        """The JSON record: field, value, source, file, line, column, variables."""
        record: ValueRecord = {"field": self.field, "value": self.value, "source": self.source}
        if self.span is not None:
            record |= {"file": self.span.file, "line": self.span.line, "column": self.span.column}
        if self.variables:
            record["variables"] = list(self.variables)
        return record

    @property
    def origin(self) -> str:
        """The origin in words, such as `shop.yaml:3` or `default`."""
        if self.span is None:
            return "default"
        file = self.span.file
        if self.source is Source.PROFILE:
            own = resources.folder("profiles")
            file = f"profile {Path(file).stem if Path(file).parent == own else file}"
        names = "".join(f", ${{{name}}}" for name in self.variables)
        return f"{file}:{self.span.line}{names}" if self.span.line else f"{file}{names}"


class Effective(Struct, frozen=True):
    """The effective topology; as text, YAML with the origin of each value in a comment."""

    data: dict[str, Any]
    values: tuple[Value, ...]

    def __repr__(self) -> str:
        return f"<Effective {self.data['name']}: {counted({'value': len(self.values)})}>"

    def __str__(self) -> str:
        origins = {each.field: each.origin for each in self.values}
        written = [(line, origins.get(field, "")) for line, field in lines(self.data)]
        width = min(max((len(line) for line, origin in written if origin), default=0), 60)
        return "".join(f"{line:{width}}  # {origin}\n" if origin else f"{line}\n" for line, origin in written)


def config(topology: Topology) -> Effective:
    """The effective topology, with what routes and pools inherit from policies and defaults as their own, in place of
    these. A value of a variable whose name says that it is secret stays a reference to it.

    Fields that are not written and have no value of their own, such as a route's times, which are the topology's, are
    left out; `lbgen explain` and the plan have what holds in the end. Times are in milliseconds, sizes in bytes.
    Raises nothing.
    """
    values: list[Value] = []
    topology = with_inherited(topology)
    data = topology.model.model_dump(mode="json", exclude_none=True, exclude=_EXPANDED)
    data = _walk(data, "", topology, values)
    return Effective(data, tuple(values))


def _walk(data: Any, path: str, topology: Topology, values: list[Value]) -> Any:  # noqa: ANN401  # plain data
    """The data as it is written in YAML; defaults that are empty are left out."""
    if isinstance(data, dict) and data:
        inner = {k: _walk(v, f"{path}.{k}" if path else k, topology, values) for k, v in data.items()}
        return {key: value for key, value in inner.items() if value is not _NOTHING}
    if isinstance(data, list) and data:
        return [_walk(item, f"{path}[{i}]", topology, values) for i, item in enumerate(data)]
    value = _value(topology, path, data)
    if value.source is Source.DEFAULT and data in ({}, []):
        return _NOTHING
    values.append(value)
    return value.value


def _value(topology: Topology, path: str, value: JsonValue) -> Value:
    written_at = topology.marks.origin(path)
    for marks, source in ((topology.marks.top, Source.FILE), (topology.marks.under, Source.PROFILE)):
        if marks is None:
            continue
        for written in _ways(written_at):
            span, there = marks.find_value(written)
            if there:
                replaced = marks.replaced(written)
                names = names_in(replaced[1]) if replaced is not None else ()
                hidden = replaced is not None and any(_SECRET.search(name) for name in names)
                return Value(path, Reference(replaced[1]) if replaced and hidden else value, source, span, names)
    return Value(path, value, Source.DEFAULT, None)


def _ways(path: str) -> Iterator[str]:
    """How a field may be written: as it is, or without the index where one item stands for a list."""
    yield path
    if "[0]" in path[path.find("]") :]:
        head, bracket, rest = path.partition("]")
        yield head + bracket + rest.replace("[0]", "")
