"""Compression of responses: Envoy filters that routes enable, one for each set of types and least size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import version_key
from lbgen.engines.envoy.protobuf import ENABLED, extension
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.plan.policy import Compression

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_PARTIAL = 206  # a part of a response, whose range is of the bytes as they are


def _manager(on: HttpListener) -> dict[str, Data]:
    kinds = {_name(route.compression): route.compression for route in on.routes if route.compression is not None}
    return {"http_filters": [_filter(kind, on.version) for kind in kinds.values()]}


def _route(at: HttpRoute) -> dict[str, Data]:
    if at.route.compression is None or at.forward is None:
        return {}
    return {"typed_per_filter_config": {_name(at.route.compression): ENABLED}}


def _filter(compression: Compression, version: str) -> dict[str, Data]:
    """gzip for responses of these types, and for those without a type."""
    types: dict[str, Data] = {"content_type": list(compression.types)}
    if version_key(version) >= (1, 40):
        types = {"content_type_matcher": [{"exact": each, "ignore_case": True} for each in compression.types]}
    config: dict[str, Data] = {
        "compressor_library": extension("gzip", "compression.gzip.compressor.v3.Gzip"),
        "response_direction_config": {
            "common_config": {"min_content_length": compression.min_size, **types},
            "uncompressible_response_codes": [_PARTIAL],
            **({"weaken_etag_on_compress": True} if version_key(version) >= (1, 38) else {}),  # by default it drops it
        },
    }
    return extension(_name(compression), "filters.http.compressor.v3.Compressor", config, disabled=True)


def _name(compression: Compression) -> str:
    """The name by which a route enables the filter."""
    return f"gzip {compression.min_size} {' '.join(compression.types)}"


COMPRESSION = Contributor(manager=_manager, route=_route)
