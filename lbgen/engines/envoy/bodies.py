"""What happens to bodies on their way -> Envoy filters that are off until a route switches them on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.conditional_filters import not_, response_header_matches, skip_where

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.policy import Compression

BUFFER = "request-buffer"
_TYPE = "type.googleapis.com/envoy.extensions"
_FILTERS = f"{_TYPE}.filters.http"
_IN_MEMORY = 1 << 20  # bytes of a body; the rest waits on disk
_ON_DISK = 1 << 40
# Every status but 200.
_STATUSES_BUT_200 = list(range(201, 600))


def build_buffer_filter() -> dict[str, Data]:
    """Holds a request back until its body is there, whatever its length."""
    held: Data = {
        "behavior": {"fully_buffer": {}},
        "memory_buffer_bytes_limit": _IN_MEMORY,
        "storage_buffer_bytes_limit": _ON_DISK,
    }
    through: Data = {"behavior": {"bypass": {}}}
    return {
        "name": BUFFER,
        "typed_config": {
            "@type": f"{_FILTERS}.file_system_buffer.v3.FileSystemBufferFilterConfig",
            "manager_config": {"thread_pool": {}},
            "request": held,
            "response": through,
        },
        "disabled": True,
    }


def build_compression_filter(compression: Compression) -> dict[str, Data]:
    """gzip for answers of these types; Envoy itself would take an answer without a type for one of them."""
    types: list[Data] = [_media_type(each) for each in compression.types]
    compressor: dict[str, Data] = {
        "name": compression_filter_name(compression),
        "typed_config": {
            "@type": f"{_FILTERS}.compressor.v3.Compressor",
            "compressor_library": {
                "name": "gzip",
                "typed_config": {"@type": f"{_TYPE}.compression.gzip.compressor.v3.Gzip"},
            },
            "response_direction_config": {
                "common_config": {"min_content_length": compression.min_size, "content_type_matcher": types},
                "uncompressible_response_codes": _STATUSES_BUT_200,
            },
        },
    }
    return {**skip_where(not_(response_header_matches("content-type", r"\C+")), compressor), "disabled": True}


def compression_filter_name(compression: Compression) -> str:
    return f"gzip {compression.min_size} {' '.join(compression.types)}"


def _media_type(media: str) -> dict[str, Data]:
    return {"exact": media, "ignore_case": True}
