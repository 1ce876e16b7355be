"""Where `templates/` and `profiles/` are: inside an installed lbgen, or beside it in a checkout."""

from __future__ import annotations

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
