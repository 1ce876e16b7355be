"""Which responses a route compresses (contract section 4)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from lbgen.plan.policy import Compression

_QUALITY = re.compile(r"\s*q\s*=\s*([0-9.]+)\s*", re.IGNORECASE)


def accepts_gzip(accept_encoding: Iterable[str]) -> bool:
    """Whether the lines of Accept-Encoding name gzip with a quality above 0."""
    for part in ",".join(accept_encoding).split(","):
        name, *parameters = part.split(";")
        if name.strip().lower() == "gzip":
            found = [match[1] for match in map(_QUALITY.fullmatch, parameters) if match]
            return not found or float(found[0]) > 0
    return False


def compresses(
    compression: Compression,
    accept_encoding: Iterable[str],
    status: int,
    headers: Iterable[tuple[str, str]],
    length: int | None,
) -> bool:
    """Whether an endpoint's answer is compressed. `headers` have lower-case names, `length` is its Content-Length."""
    given: dict[str, str] = {}
    for name, value in headers:
        given[name] = f"{given[name]}, {value}" if name in given else value
    media = given.get("content-type", "").partition(";")[0].strip().lower()
    return (
        accepts_gzip(accept_encoding)
        and status == 200
        and media in compression.types
        and "content-encoding" not in given
        and "no-transform" not in given.get("cache-control", "").lower()
        and (length is None or length >= compression.min_size)
    )
