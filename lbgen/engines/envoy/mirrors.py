"""Copies of requests: Envoy adds headers to what it sends on its own account, and they are put right on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.headers import SET, header_option
from lbgen.engines.envoy.typed_config import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FOR = "x-forwarded-for"
_SAVED = "x-lbgen-forwarded-for"  # never leaves Envoy


def build_saved_headers() -> list[dict[str, Data]]:
    """What a copy takes along: the header that Envoy appends its own address to."""
    return [{"append": header_option(_SAVED, "%REQ(X-FORWARDED-FOR)%", SET)}]


def build_mirror_filters() -> list[dict[str, Data]]:
    """The filters of a cluster that gets copies."""
    mutations: list[Data] = [
        {"remove": "x-lbgen-internal"},
        {"remove": _FOR},
        {"append": header_option(_FOR, f"%REQ({_SAVED.upper()})%", SET)},  # nothing happens when there is none
        {"remove": _SAVED},
    ]
    return [
        extension(
            "copies", "filters.http.header_mutation.v3.HeaderMutation", {"mutations": {"request_mutations": mutations}}
        )
    ]
