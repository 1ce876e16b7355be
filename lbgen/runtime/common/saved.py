"""Data of lbgen's own on disk between commands, as a pickle: a plan is a tree of a hundred kinds of frozen data.

Only such data are read back, never a function, and only from a file of the user's own that no other can write.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import stat
import sys
from dataclasses import is_dataclass
from enum import Enum
from errno import ELOOP, ENOENT
from functools import cache
from pathlib import Path, PosixPath
from typing import Any

from lbgen.diagnostics import EngineError
from lbgen.runtime.common.state import store
from lbgen.system_errors import to_diagnostic

_PACKAGE = Path(__file__).parents[2]
_PLAIN = (frozenset, set, PosixPath)


def write(path: Path, value: object) -> None:
    """Keep `value`, a dataclass, whole at any moment. Raises EngineError LB408, and PicklingError."""
    file = io.BytesIO()
    _Writer(file).dump(value)
    store(path, _version() + file.getvalue())


def read(path: Path) -> object | None:
    """What `write` left; None where there is no file, where another user or another lbgen wrote it. Raises EngineError
    LB425 when the file cannot be opened."""
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
            found: object = _Data(io.BytesIO(file.read())).load()
        except (pickle.PickleError, EOFError, AttributeError, ImportError, TypeError, ValueError, IndexError, KeyError):
            return None
    return found


class _Writer(pickle.Pickler):
    """Writes an enum's member as its class and value: early 3.11 does so by `getattr`, which is not read back."""

    def reducer_override(self, obj: object) -> Any:  # noqa: ANN401  # as the base class has it
        return (type(obj), (obj.value,)) if isinstance(obj, Enum) else NotImplemented


class _Data(pickle.Unpickler):
    """Makes frozen data and enums of lbgen, and nothing else."""

    def find_class(self, module: str, name: str) -> type:
        found = super().find_class(module, name)
        ours = module.startswith("lbgen.") and isinstance(found, type)
        if found in _PLAIN or (ours and (is_dataclass(found) or issubclass(found, Enum))):
            return found  # type: ignore[no-any-return]
        raise pickle.UnpicklingError(f"{module}.{name} is no data")


@cache
def _version() -> bytes:
    """What the file begins with: the code that alone understands the rest."""
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"lbgen {digest.hexdigest()[:16]}\n".encode()
