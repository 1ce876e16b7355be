"""Compression of responses by gzip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.traefik.view import Contributor, HttpRoute

if TYPE_CHECKING:
    from lbgen.engines.document import Data


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    compression = at.route.compression
    if compression is not None:
        settings: dict[str, Data] = {
            "encodings": ["gzip"],
            "includedContentTypes": list(compression.types),
            "minResponseBodyBytes": compression.min_size,
        }
        yield "gzip", {"compress": settings}


COMPRESSION = Contributor(middlewares=_middlewares, answers=True)  # its headers are to be on the compressed answer
