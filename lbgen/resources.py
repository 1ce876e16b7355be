"""The folders `templates` and `profiles`, installed or in a checkout, and the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(kind: str) -> Path:
    """The folder `templates` or `profiles`; FileNotFoundError names both places that were tried."""
    installed = _PACKAGE / "_data" / kind
    if installed.is_dir():
        return installed
    checkout = _PACKAGE.parent / kind
    if checkout.is_dir() and (_PACKAGE.parent / "pyproject.toml").is_file():
        return checkout
    raise FileNotFoundError(f"lbgen's {kind} are neither in {installed} nor in {checkout}; the installation is broken")


def cache(kind: str) -> Path | None:
    """A private cache folder: `$XDG_CACHE_HOME/lbgen/<kind>`, else below `~/.cache`.

    None when it cannot be created, or others can write to it.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
        path = root / "lbgen" / kind
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = path.stat()
    except (OSError, RuntimeError):  # no home, or one that is read-only
        return None
    return path if found.st_uid == os.geteuid() and not found.st_mode & 0o022 else None
