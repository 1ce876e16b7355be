"""Mirrors: Envoy adds headers to the copies of requests that it sends, and these filters restore them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.headers import SET, build_mutation_filter, header_option

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FOR = "x-forwarded-for"
_SAVED = "x-lbgen-forwarded-for"  # internal: removed before the endpoint


def build_saved_headers() -> list[dict[str, Data]]:
    """The header mutations of a copy: they save X-Forwarded-For, to which Envoy appends its own address."""
    return [{"append": header_option(_SAVED, "%REQ(X-FORWARDED-FOR)%", SET)}]


def build_mirror_filters() -> list[dict[str, Data]]:
    """The filters of a cluster that receives copies."""
    mutations: list[Data] = [
        {"remove": "x-lbgen-internal"},
        {"remove": _FOR},
        {"append": header_option(_FOR, f"%REQ({_SAVED.upper()})%", SET)},  # no effect without a value
        {"remove": _SAVED},
    ]
    return [build_mutation_filter("copies", mutations)]
