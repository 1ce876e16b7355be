"""Objections to headers that nginx cannot read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.policy import Key

_READABLE = re.compile(r"[a-z0-9_-]+")


def is_readable(header: str) -> bool:
    """Whether nginx has a variable for the header."""
    return _READABLE.fullmatch(header) is not None


def key_objections(key: Key, field: str) -> Iterator[Objection]:
    """An objection to a key of limits or hashes that is an unreadable header."""
    if key.kind is KeyKind.HEADER and not is_readable(key.name):
        yield Objection(refused(f"nginx cannot read the header {key.name}"), field)
