"""Data of lbgen in the state directory between commands: a line with the number of its schema, then JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import DecodeError as DecodeError  # also ValidationError

from lbgen.diagnostics import EngineError, Span
from lbgen.plan.spans import Spans
from lbgen.runtime.common.state import store
from lbgen.system_errors import to_diagnostic

T = TypeVar("T")


def write(path: Path, schema: int, value: object) -> None:
    """Write `value`, a record or a dataclass, atomically. `schema` is the number of its file's layout: another one
    wherever a field gets another meaning. Raises EngineError LB408."""
    store(path, _head(schema) + encode(value))


def read(path: Path, schema: int, kind: type[T]) -> T | None:
    """The `kind` that `write` left in the file; None where there is none, or it has another schema.

    What the annotations of `kind` and of its parts name must be imported at run time. Raises EngineError LB425 when the
    file cannot be opened.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EngineError(to_diagnostic(error)) from None
    if not content.startswith(_head(schema)):
        return None
    try:
        return decode(content.removeprefix(_head(schema)), kind)
    except DecodeError:
        return None


def _head(schema: int) -> bytes:
    return f"lbgen schema {schema}\n".encode()


def encode(value: object) -> bytes:
    """JSON of records and dataclasses, with text that is not UTF-8, such as paths."""
    return json.dumps(msgspec.to_builtins(value, enc_hook=_to_plain)).encode()


def decode(content: bytes, kind: type[T]) -> T:
    """The `kind` that `encode` was given. Raises DecodeError."""
    try:
        plain = json.loads(content)
    except ValueError as error:
        raise DecodeError(str(error)) from None
    return msgspec.convert(plain, kind, dec_hook=from_plain, str_keys=True)


def _to_plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Spans):
        return tuple(value)
    raise NotImplementedError(type(value).__name__)


def from_plain(kind: type, plain: object) -> object:
    """The `dec_hook` of msgspec for the types that plans and engines have."""
    if issubclass(kind, Path):
        return kind(str(plain))
    if issubclass(kind, Spans):
        return kind.of(msgspec.convert(plain, tuple[tuple[str, Span], ...]))
    raise NotImplementedError(kind.__name__)
