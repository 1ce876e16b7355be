"""Who owns a stack of containers: the state directory that made it. A daemon may serve several."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.state import root
from lbgen.system_errors import remedy

_ID = "io.lbgen.owner"
_PATH = "io.lbgen.owner-path"
_FILE = "id"


def labels() -> dict[str, str]:
    """The labels of what this state directory owns. Raises EngineError LB408."""
    return {_ID: _directory_id(), _PATH: str(root())}


def foreign_owner(found: Mapping[str, str]) -> str:
    """The owner by the labels of a container, network or volume, in words; "" = this state directory. Without such
    labels the owner is unknown, and counts as another. Raises EngineError LB408."""
    if found.get(_ID) == _directory_id():
        return ""
    path = found.get(_PATH)
    return f"the state directory {path}" if path else "an unknown state directory"


def _directory_id() -> str:
    """A random id, as two hosts or containers may share a daemon and have their state directories at the same path."""
    path = root() / _FILE
    try:
        if not path.exists():
            _create(path)
        return path.read_text(encoding="ascii")
    except OSError as error:
        raise EngineError(Diagnostic("LB408", f"{path}: {error.strerror}", hint=remedy(error))) from None
    except ValueError as error:
        raise EngineError(Diagnostic("LB408", f"{path} cannot be read: {error}", hint="remove it")) from None


def _create(path: Path) -> None:
    """Write the id whole; of two processes the first one wins. Raises OSError."""
    staged = path.with_name(f".{_FILE}.{secrets.token_hex(4)}")
    try:
        staged.touch(mode=0o600)
        staged.write_text(secrets.token_hex(16), encoding="ascii")
        with suppress(FileExistsError):
            os.link(staged, path)
    finally:
        staged.unlink(missing_ok=True)
