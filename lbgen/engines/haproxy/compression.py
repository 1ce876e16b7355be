"""Compression of responses by HAProxy's own filter, in the backends of the routes that ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import version_key
from lbgen.engines.haproxy.statements import Statement, statement
from lbgen.engines.text import Literal

if TYPE_CHECKING:
    from lbgen.plan.policy import Compression


def compression_statements(compression: Compression, version: str, origin: str) -> list[Statement]:
    """HAProxy compresses only whole responses that are not encoded yet; versions before 3.1 know no least size."""
    least = [f"minsize-res {compression.min_size}"] if version_key(version) >= (3, 1) else []
    types = statement("compression type", *map(Literal, compression.types), origin=origin)
    words = ("filter compression", "compression algo gzip", *(f"compression {each}" for each in least))
    return [*(statement(each, origin=origin) for each in words), types]
