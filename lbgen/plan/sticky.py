"""Values of sticky cookies: a keyed hash of the endpoint's address, the same on every engine."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.spec.load import Topology
    from lbgen.spec.pool import Sticky

SHORTEST_SECRET = 16  # bytes: a shorter one can be found by trying, from one cookie and one address
_DERIVED = b"lbgen sticky cookie"


def read_secret(path: Path) -> bytes:
    """Return the bytes of a secret file without white space at its ends.

    Raises OSError when it cannot be read, ValueError when it holds fewer than 16 bytes.
    """
    secret = path.read_bytes().strip()
    if len(secret) < SHORTEST_SECRET:
        raise ValueError(f"it holds {len(secret)} bytes, and at least {SHORTEST_SECRET} are needed")
    return secret


def cookie_key(sticky: Sticky, topology: Topology) -> bytes:
    """Return the key of a pool's cookies: its `secret` file, else one derived from the topology's name.

    Raises as `read_secret`; the checks of the plan (LB230) have read the file before.
    """
    if sticky.secret is None:
        return hashlib.sha256(_DERIVED + b"\0" + topology.model.name.encode()).digest()
    return read_secret(topology.base / sticky.secret)


def cookie_value(key: bytes, authority: str) -> str:
    """Return 16 hex digits that name the endpoint `authority` (host:port) and reveal nothing about it without `key`."""
    return hmac.new(key, authority.encode(), hashlib.sha256).hexdigest()[:16]
