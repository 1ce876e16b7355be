"""Compression of responses."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import version_key
from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.haproxy.view import Contributor, PoolUse
from lbgen.engines.text import Literal


def _backend(use: PoolUse) -> Iterator[Statement]:
    """HAProxy compresses only whole responses that are not encoded yet; versions before 3.1 know no least size."""
    if use.compression is None:
        return
    origin = use.pool.field
    yield statement("filter compression", origin=origin)
    yield statement("compression algo gzip", origin=origin)
    if version_key(use.version) >= (3, 1):
        yield statement(f"compression minsize-res {use.compression.min_size}", origin=origin)
    yield statement("compression type", *map(Literal, use.compression.types), origin=origin)


COMPRESSION = Contributor(backend=_backend)
