"""The folders `templates` and `profiles`, installed or in a checkout, and the user's cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from lbgen.version import VERSION

_T = TypeVar("_T")

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


def kept(name: str, key: Iterable[object], read: Callable[[bytes], _T], make: Callable[[], tuple[_T, bytes]]) -> _T:
    """What `make` made, with its content, when `name` was last asked for with the same `key`, by `read`; else what it
    makes now.

    It is only ever a matter of time: what cannot be read is made again, what cannot be written is not kept.
    """
    folder = cache(f"kept-{VERSION}")
    if folder is None:
        return make()[0]
    file = folder / f"{name}-{_digest(_PACKAGE).hex()[:16]}"  # one for each installation
    digest = _digest(*key)
    with suppress(Exception):  # absent, or broken in some way
        there = file.read_bytes()
        if there.startswith(digest):
            return read(there[len(digest) :])
    made, content = make()
    import tempfile  # rarely needed

    with suppress(OSError):  # a full or read-only disk
        handle, staged = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(digest + content)
        Path(staged).replace(file)
    return made


def _digest(*parts: object) -> bytes:
    return sha256("\n".join(map(str, parts)).encode("utf-8", "surrogateescape")).digest()
