"""Names of what an orchestrator runs."""

from __future__ import annotations

import hashlib
import re

DIGITS = 10  # of a digest in a name
_LONGEST = 50  # name of a part, so that what is put after it fits into the 63 letters of DNS


def digest(*contents: bytes | str) -> str:
    """Some digits of a digest of texts, for names."""
    hasher = hashlib.sha256()
    for each in contents:
        raw = each.encode() if isinstance(each, str) else each
        hasher.update(len(raw).to_bytes(8, "big") + raw)
    return hasher.hexdigest()[:DIGITS]


def label(name: str) -> str:
    """A name as DNS has it: lower-case letters, digits and hyphens, 50 at most. It ends with a digest where it is not
    the name itself, so that two names stay two."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    if name == plain[:_LONGEST]:
        return name
    return f"{plain[: _LONGEST - DIGITS - 1].rstrip('-')}-{digest(name)}".lstrip("-")
