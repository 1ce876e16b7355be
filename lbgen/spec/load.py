"""Loads a topology file or mapping into a checked model with the place of each field."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from pydantic import ValidationError

from lbgen.diagnostics import Diagnostic, LbgenError, Span, counted
from lbgen.spec.dump import flow
from lbgen.spec.edit import Edit
from lbgen.spec.layering import INCLUDE, Document, Layering
from lbgen.spec.marks import Layers
from lbgen.spec.model import TopologyModel
from lbgen.spec.profile import with_profile
from lbgen.spec.pydantic_errors import diagnose, read_variables
from lbgen.spec.source import Source, parse, read_mapping, read_nodes
from lbgen.spec.value_errors import kind_of

__all__ = ["Topology", "load", "load_bytes"]


class Topology(Struct, frozen=True):
    """A topology whose every field is legal by itself; references are checked by the plan.

    `file` is its name in messages (`<dict>` for Python data), `base` the folder that relative files begin at; `load`
    makes it absolute, since a process with another working directory may read them, or this one after a `chdir`.
    """

    model: TopologyModel
    marks: Layers
    base: Path
    file: str
    variables: Mapping[str, str] = field(default_factory=dict)  # those it was read with

    def __repr__(self) -> str:
        sizes = {kind: len(getattr(self.model, f"{kind}s")) for kind in ("listener", "pool", "route")}
        return f"<Topology {self.name} from {self.file}: {counted(sizes)}>"

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.model.name

    def replace(self, settings: Mapping[str, object] | None = None, /, **fields: object) -> Topology:
        """A new topology with these fields replaced, checked as `load` does.

        `settings` are fields as findings write them and their values, such as `{"listeners.web.port": 8081,
        "routes[api].forward": "blue"}`; `fields` are those of the top level, such as `timeouts={"response": "7s"}`.
        Missing mappings are made. What stays keeps its places; what is set is at `<edit>`.
        Raises LbgenError: LB135 no such field, else the findings of `load`.
        """
        edit = Edit.begin(self.marks.top, self.variables)
        for path, value in {**(settings or {}), **fields}.items():
            edit.set(path, value)
        return self._edited(edit)

    def without(self, *fields: str) -> Topology:
        """A new topology without these fields, such as `routes[api].retries` or `pools.old`, in this order.

        What the profile says then holds. Raises LbgenError: LB135 not written in the topology, else the findings of
        `load`.
        """
        edit = Edit.begin(self.marks.top, self.variables)
        for path in fields:
            edit.remove(path)
        return self._edited(edit)

    def with_route(self, route: Mapping[str, Any]) -> Topology:
        """A new topology with this route; it replaces the one of its name. Raises LbgenError with the findings."""
        edit = Edit.begin(self.marks.top, self.variables)
        edit.put(("routes", edit.route_index(route.get("name"))), route)
        return self._edited(edit)

    def with_pool(self, name: str, pool: Mapping[str, Any]) -> Topology:
        """A new topology with this pool; it replaces the one of its name. Raises LbgenError with the findings."""
        edit = Edit.begin(self.marks.top, self.variables)
        edit.put(("pools", name), pool)
        return self._edited(edit)

    def with_listener(self, name: str, listener: Mapping[str, Any]) -> Topology:
        """A new topology with this listener; it replaces the one of its name. Raises LbgenError with the findings."""
        edit = Edit.begin(self.marks.top, self.variables)
        edit.put(("listeners", name), listener)
        return self._edited(edit)

    def _edited(self, edit: Edit) -> Topology:
        return _loaded(edit.source(), self.base, self.variables)

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where the value of a field such as `routes[2].retries.max` is written (its key with `key`); the nearest
        thing around it when it is not written. A value from the profile has its place there."""
        return self.marks.span(path, key=key)

    def wrote(self, path: str) -> bool:
        """Whether a field stands in the user's own file, not in the profile."""
        return self.marks.wrote(path)


def load(
    source: str | Path | Sequence[str | Path] | Mapping[Any, Any],
    *,
    base: str | Path | None = None,
    profile: str | None = None,
    settings: Mapping[str, object] | None = None,
    variables: Mapping[str, str] | None = None,
) -> Topology:
    """The topology in a YAML file, in several that are laid over each other, or in a mapping; over its profile.

    Of several files the later one wins: mappings merge, `routes` merge by name, other lists replace. `base` is the
    folder that relative files begin at; default: that of the first file, for a mapping the working directory.
    `profile` replaces the one that the topology names. `settings` are fields and their values, such as
    `{"listeners.web.port": 8081, "routes[api].forward": "blue"}`. `variables` replace `${NAME}` in files (default: the
    environment); a mapping is taken as it stands, and its key `True` is `on`, as YAML 1.1 reads that word.
    Raises LbgenError with all findings (LB1xx) of the stage that found any: text, then profile, then values; TypeError
    for settings of a mapping.
    """
    if isinstance(source, Mapping):
        if settings:
            raise TypeError("settings are laid over files; change the mapping itself")
        over = {} if profile is None else {"profile": profile}
        read = read_mapping({**source, **over})
        if INCLUDE in read.data:
            hint = "load the files, or write their routes and pools into the mapping"
            raise LbgenError(Diagnostic("LB134", "a mapping includes no files", Span("<dict>"), INCLUDE, hint))
        return _loaded(read, Path.cwd() if base is None else Path(base), os.environ)
    paths = [Path(source)] if isinstance(source, str | Path) else [Path(each) for each in source]
    if not paths:
        raise ValueError("load needs a file")
    written = {} if profile is None else {"profile": profile}
    pairs = [(field, flow(value)) for field, value in {**(settings or {}), **written}.items()]
    documents = [Document(str(path), path.parent, read_nodes(path)) for path in paths]
    return load_documents(documents, pairs, base=base, variables=variables)


def load_bytes(raw: bytes, file: str, base: Path) -> Topology:
    """Like `load`, of text that is at hand; `file` is its name in messages."""
    return load_documents([Document(file, base, parse(raw, file))])


def load_documents(
    documents: Sequence[Document],
    settings: Sequence[tuple[str, str]] = (),
    *,
    base: str | Path | None = None,
    variables: Mapping[str, str] | None = None,
) -> Topology:
    """Like `load`, of at least one file that is read already. `settings` are pairs of a field and YAML text."""
    known = os.environ if variables is None else variables
    merged = Layering(known).merge(documents, settings)
    return _loaded(merged, documents[0].base if base is None else Path(base), known)


def _loaded(source: Source, base: Path, variables: Mapping[str, str]) -> Topology:
    if not isinstance(source.data, dict):
        message = f"{kind_of(source.data)} where a topology is expected"
        raise LbgenError(Diagnostic("LB105", message, source.marks.span(""), hint="lbgen init writes one"))
    unusable: LbgenError | None = None
    try:
        data, marks = with_profile(source, base, variables)
    except LbgenError as error:  # report the topology's own findings too
        unusable, data, marks = error, source.data, Layers(source.marks)
    try:
        model = _validated(data, marks)
    except ValidationError as error:
        found = diagnose(error, TopologyModel, data, marks)
        raise LbgenError([*(unusable.diagnostics if unusable else ()), *found]) from None
    if unusable:
        raise unusable
    return Topology(model, marks, base.absolute(), source.marks.file, dict(variables))


def _validated(data: dict[str, Any], marks: Layers) -> TopologyModel:
    try:
        return TopologyModel.model_validate(data)
    except ValidationError as error:
        if not read_variables(error, data, marks):
            raise
    return TopologyModel.model_validate(data)
