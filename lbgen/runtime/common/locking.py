"""Locks between the lbgen processes of one user."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lbgen.runtime.common.state import root


@contextmanager
def lock(what: str) -> Iterator[None]:
    """Hold the lock `what` against other lbgen processes of this user; the kernel releases it when a process dies."""
    path = root() / f"{what}.lock"
    while True:
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if not _is_at(handle.fileno(), path):
                continue  # the one before us removed it
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
