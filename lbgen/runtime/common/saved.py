"""Data of lbgen on disk between commands: a line that names the code that wrote it, then JSON.

Files are read only where they belong to the user and no other user can write them.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from errno import ELOOP, ENOENT
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan import listener, model, policy, rules, tls
from lbgen.runtime.common.state import store
from lbgen.system_errors import to_diagnostic

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")
_PACKAGE = Path(__file__).parents[2]
_ADAPTERS: dict[type, TypeAdapter[Any]] = {}


def write(path: Path, value: object, *modules: ModuleType) -> None:
    """Write `value`, a dataclass, atomically; `modules` as in `read`. Raises EngineError LB408."""
    try:
        content = _adapter(type(value), modules).dump_json(value)
    except PydanticSerializationError as error:  # a path that is not UTF-8
        raise EngineError(Diagnostic("LB408", f"{path}: {error}")) from None
    store(path, _version() + content)


def read(path: Path, kind: type[T], *modules: ModuleType) -> T | None:
    """The `kind` that `write` left in the file; None where there is none, or another user or another lbgen wrote it.

    `modules` (beside those of the plan) define what the annotations of `kind` name and its own module does not import
    at run time. Raises EngineError LB425 when the file cannot be opened.
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
            return _adapter(kind, modules).validate_json(file.read())
        except ValueError:  # also pydantic's ValidationError
            return None


def _adapter(kind: type[T], modules: tuple[ModuleType, ...]) -> TypeAdapter[T]:
    if kind in _ADAPTERS:
        return _ADAPTERS[kind]
    names: dict[str, object] = {"Path": Path}
    for module in (listener, model, policy, rules, tls, *modules):
        classes = {name: value for name, value in vars(module).items() if isinstance(value, type)}
        names |= {name: object if getattr(value, "_is_protocol", False) else value for name, value in classes.items()}
    adapter = _ADAPTERS[kind] = TypeAdapter(kind)
    adapter.rebuild(_types_namespace=names)
    return adapter


@cache
def _version() -> bytes:
    """The first line of a file: a digest of Python's version and of lbgen's code, which alone understands the rest."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"lbgen {digest.hexdigest()[:16]}\n".encode()
