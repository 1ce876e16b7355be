"""What only the lbgen that made a stack of containers knows of it: kept in the state directory, for the next change.

A pickle, since a plan is a tree of a hundred kinds of frozen data; only such data are read back, never a function.
"""

from __future__ import annotations

import io
import os
import pickle
import stat
from dataclasses import dataclass, is_dataclass
from enum import Enum
from pathlib import PosixPath
from typing import TYPE_CHECKING, Any

from lbgen.runtime.docker import own
from lbgen.runtime.health import members
from lbgen.runtime.local.state import root, store

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.plan.model import Plan
    from lbgen.runtime.health import Member
    from lbgen.runtime.standins import Cast

_FILE = "kept"
_PLAIN = (frozenset, set, PosixPath)


@dataclass(frozen=True, slots=True)
class Kept:
    """The plan that the stack serves, the stand-ins that were ever started, what was accepted, whether it has stand-ins
    at all."""

    plan: Plan
    cast: Cast
    accept: tuple[str, ...]
    backends: bool

    def members(self) -> tuple[Member, ...]:
        """The endpoints under their names, at the addresses that the engines have."""
        host = self.cast.stand_ins[0].host if self.cast.stand_ins else ""
        return members(self.plan, self.cast.play(self.plan, host))

    def write(self) -> None:
        """Keep it, whole at any moment. Raises EngineError LB408."""
        file = io.BytesIO()
        _Writer(file).dump(self)
        store(folder(self.plan.name) / _FILE, _version() + file.getvalue())


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


def _version() -> bytes:
    """What the file begins with: the code that alone understands the rest."""
    return f"lbgen {own.tag()}\n".encode()


def folder(stack: str) -> Path:
    """The stack's in the state directory, which is ours alone."""
    return root() / "docker" / stack


def read(stack: str) -> Kept | None:
    """None where another user, or another lbgen, made the stack: it can be replaced then, and not be changed."""
    try:
        descriptor = os.open(folder(stack) / _FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        about, version = os.fstat(descriptor), _version()
        if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o022 or file.read(len(version)) != version:
            return None
        try:
            found = _Data(io.BytesIO(file.read())).load()
        except (pickle.PickleError, EOFError, AttributeError, ImportError, TypeError, ValueError, IndexError, KeyError):
            return None
    return found if isinstance(found, Kept) else None
