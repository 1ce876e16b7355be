"""Data of lbgen on disk between commands: a line that names the code that wrote it, then JSON.

Files are read only where they belong to the user and no other user can write them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from errno import ELOOP, ENOENT
from functools import cache
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import DecodeError as DecodeError  # also ValidationError

from lbgen.diagnostics import Diagnostic, EngineError, Span
from lbgen.plan.spans import Spans
from lbgen.runtime.common.state import store
from lbgen.system_errors import to_diagnostic

T = TypeVar("T")
_PACKAGE = Path(__file__).parents[2]


def write(path: Path, value: object) -> None:
    """Write `value`, a record or a dataclass, atomically. Raises EngineError LB408."""
    try:
        content = encode(value)
    except UnicodeEncodeError as error:  # a path that is not UTF-8
        raise EngineError(Diagnostic("LB408", f"{path}: {error}")) from None
    store(path, _version() + content)


def read(path: Path, kind: type[T]) -> T | None:
    """The `kind` that `write` left in the file; None where there is none, or another user or another lbgen wrote it.

    What the annotations of `kind` and of its parts name must be imported at run time. Raises EngineError LB425 when the
    file cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (ENOENT, ELOOP):
            return None
        raise EngineError(to_diagnostic(error)) from None
    with os.fdopen(descriptor, "rb") as file:
        about, version = os.fstat(descriptor), _version()
        if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o022 or file.read(len(version)) != version:
            return None
        try:
            return decode(file.read(), kind)
        except DecodeError:
            return None


def encode(value: object, *, any_text: bool = False) -> bytes:
    """JSON of records and dataclasses. UnicodeEncodeError for text that is not UTF-8, such as paths, unless
    `any_text`."""
    try:
        return msgspec.json.encode(value, enc_hook=_to_plain)
    except UnicodeEncodeError:
        if not any_text:
            raise
        return json.dumps(msgspec.to_builtins(value, enc_hook=_to_plain)).encode()


def decode(content: bytes, kind: type[T]) -> T:
    """The `kind` that `encode` was given. Raises DecodeError."""
    if b"\\udc" in content:  # text that is not UTF-8, which msgspec does not read
        return msgspec.convert(json.loads(content), kind, dec_hook=from_plain, str_keys=True)
    return msgspec.json.decode(content, type=kind, dec_hook=from_plain)


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


@cache
def _version() -> bytes:
    """The first line of a file: a digest of Python's version and of lbgen's code, which alone understands the rest."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"lbgen {digest.hexdigest()[:16]}\n".encode()
