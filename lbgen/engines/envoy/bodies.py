"""Buffering of request bodies: an Envoy filter that routes enable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data

BUFFER = "request-buffer"
_IN_MEMORY = 1 << 20  # bytes of a body in memory; the rest is on disk
_ON_DISK = 1 << 40


def build_buffer_filter() -> dict[str, Data]:
    """The filter that holds a request until its body is complete, whatever its length."""
    config: dict[str, Data] = {
        "manager_config": {"thread_pool": {}},
        "request": {
            "behavior": {"fully_buffer": {}},
            "memory_buffer_bytes_limit": _IN_MEMORY,
            "storage_buffer_bytes_limit": _ON_DISK,
        },
        "response": {"behavior": {"bypass": {}}},
    }
    kind = "filters.http.file_system_buffer.v3.FileSystemBufferFilterConfig"
    return extension(BUFFER, kind, config, disabled=True)
