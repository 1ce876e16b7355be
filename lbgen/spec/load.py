"""Loads a topology file or mapping into a checked model with the place of each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lbgen.diagnostics import Diagnostic, LbgenError, Span
from lbgen.spec.marks import Layers
from lbgen.spec.model import TopologyModel
from lbgen.spec.profile import with_profile
from lbgen.spec.pydantic_errors import diagnose
from lbgen.spec.source import Source, read_bytes, read_file, read_mapping, without_collector
from lbgen.spec.value_errors import kind_of

__all__ = ["Topology", "load", "load_bytes", "load_topology"]


@dataclass(frozen=True, slots=True)
class Topology:
    """A topology whose every field is legal by itself; references are checked by the plan.

    `file` is its name in messages (`<dict>` for Python data), `base` the folder that relative files begin at; `load`
    makes it absolute, since a process with another working directory may read them, or this one after a `chdir`.
    """

    model: TopologyModel
    marks: Layers
    base: Path
    file: str

    @property
    def name(self) -> str:
        """The name of the topology."""
        return self.model.name

    def span(self, path: str, *, key: bool = False) -> Span:
        """Where the value of a field such as `routes[2].retries.max` is written (its key with `key`); the nearest
        thing around it when it is not written. A value from the profile has its place there."""
        return self.marks.span(path, key=key)

    def wrote(self, path: str) -> bool:
        """Whether a field stands in the user's own file, not in the profile."""
        return self.marks.wrote(path)


def load(source: str | Path | Mapping[Any, Any], *, base: str | Path | None = None) -> Topology:
    """The topology in a YAML file or in a mapping, laid over its profile.

    `base` is the folder that relative files begin at; default: the file's, for a mapping the working directory.
    A key `True` of a mapping is `on`, as YAML 1.1 reads that word. Raises LbgenError with all findings (LB1xx) of the
    stage that found any: text, then profile, then values.
    """
    with without_collector():
        if isinstance(source, Mapping):
            return _loaded(read_mapping(source), Path.cwd() if base is None else Path(base))
        path = Path(source)
        return _loaded(read_file(path), path.parent if base is None else Path(base))


load_topology = load


def load_bytes(raw: bytes, file: str, base: Path) -> Topology:
    """Like `load`, of text that is at hand; `file` is its name in messages."""
    with without_collector():
        return _loaded(read_bytes(raw, file), base)


def _loaded(source: Source, base: Path) -> Topology:
    if not isinstance(source.data, dict):
        message = f"{kind_of(source.data)} where a topology is expected"
        raise LbgenError(Diagnostic("LB105", message, source.marks.span(""), hint="lbgen init writes one"))
    unusable: LbgenError | None = None
    try:
        data, marks = with_profile(source, base)
    except LbgenError as error:  # report the topology's own findings too
        unusable, data, marks = error, source.data, Layers(source.marks)
    try:
        model = TopologyModel.model_validate(data)
    except ValidationError as error:
        found = diagnose(error, TopologyModel, data, marks)
        raise LbgenError([*(unusable.diagnostics if unusable else ()), *found]) from None
    if unusable:
        raise unusable
    return Topology(model, marks, base.absolute(), source.marks.file)
