"""Keeps the schema by which pydantic checks a topology on disk: importing pydantic, and building the schema, takes ten
times as long as most loads."""

from __future__ import annotations

import os
import pickle
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pydantic_core
from pydantic_core import SchemaValidator

from lbgen import resources
from lbgen.spec.declare import core_schema
from lbgen.spec.model import TopologyModel

_NOT_OF_CHECKS = ("metadata", "serialization")  # what pydantic needs for JSON Schema and dumps, and builds then


@cache
def validator() -> SchemaValidator:
    """The validator of `TopologyModel`, of a schema that an earlier process has built with the same code if there is
    one."""
    return resources.kept("topology-schema", _key(), _read, _make)


def _read(content: bytes) -> SchemaValidator:
    return SchemaValidator(pickle.loads(content))  # noqa: S301  # only this user can write there


def _make() -> tuple[SchemaValidator, bytes]:
    schema = _built()
    return SchemaValidator(schema), pickle.dumps(schema)


def _built() -> Any:  # noqa: ANN401  # a core schema
    return _for_checks(core_schema(TopologyModel))


def _for_checks(schema: Any) -> Any:  # noqa: ANN401  # a core schema, or a part of it
    if isinstance(schema, dict):
        left_out = _NOT_OF_CHECKS if isinstance(schema.get("type"), str) else ()  # not: fields of such a name
        return {key: _for_checks(part) for key, part in schema.items() if key not in left_out}
    return [_for_checks(part) for part in schema] if isinstance(schema, list) else schema


def _key() -> list[object]:
    """Differs wherever the schema may: other code of the models, Python or pydantic."""
    said: list[object] = [__file__, sys.version, pydantic_core.__version__]
    if (installed := find_spec("pydantic")) is not None and installed.origin is not None:
        version = Path(installed.origin).with_name("version.py").stat()  # an import takes longer
        said += [installed.origin, version.st_mtime_ns, version.st_size]
    folder = Path(__file__).parent
    for name in sorted(os.listdir(folder)):  # noqa: PTH208  # `Path.glob` compiles a regex
        if name.endswith(".py"):
            found = (folder / name).stat()
            said += [name, found.st_mtime_ns, found.st_size]
    return said
