"""Sizes of requests: limits on heads and targets, of a listener, and on bodies, of a route; buffers for bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import version_key
from lbgen.engines.envoy.protobuf import ENABLED, extension
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_BUFFER = "request-buffer"
_IN_MEMORY = 1 << 20  # bytes of a body in memory; the rest is on disk
_ON_DISK = 1 << 40


def _manager(on: HttpListener) -> dict[str, Data]:
    limits = on.listener.limits
    found: dict[str, Data] = {}
    if limits.headers is not None:
        found["max_request_headers_kb"] = -(-limits.headers // 1024)  # whole KiB, with the request line
    if limits.target is not None:
        policy: Data = {
            "permissions": [{"any": True}],
            "principals": [{"any": True}],
            "condition": _longer(limits.target),
        }
        rules: Data = {"action": "DENY", "policies": {"too-long": policy}}
        found["http_filters"] = [extension("target-size", "filters.http.rbac.v3.RBAC", {"rules": rules})]
    return found


def _longer(limit: int) -> dict[str, Data]:
    """The CEL expression `size(request.path) > limit`."""
    path: Data = {"select_expr": {"operand": {"ident_expr": {"name": "request"}}, "field": "path"}}
    size: Data = {"call_expr": {"function": "size", "args": [path]}}
    return {"call_expr": {"function": "_>_", "args": [size, {"const_expr": {"int64_value": limit}}]}}


def _sizes(on: HttpListener) -> dict[str, Data]:
    """The filters that refuse longer bodies; before 1.40 those that hold bodies until they end."""
    kind = "body_size_limit.v3.BodySizeLimit" if version_key(on.version) >= (1, 40) else "buffer.v3.Buffer"
    sizes = sorted({route.max_body for route in on.routes if route.max_body is not None})
    return {
        "http_filters": [
            extension(_name(size), f"filters.http.{kind}", {"max_request_bytes": size}, disabled=True) for size in sizes
        ]
    }


def _size(at: HttpRoute) -> dict[str, Data]:
    return {} if at.route.max_body is None else {"typed_per_filter_config": {_name(at.route.max_body): ENABLED}}


def _name(size: int) -> str:
    return f"max-body-{size}"


def _buffers(on: HttpListener) -> dict[str, Data]:
    """The filter that holds a request until its body is complete, whatever its length."""
    if not any(isinstance(route.action, Forward) and route.action.buffering.request for route in on.routes):
        return {}
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
    return {"http_filters": [extension(_BUFFER, kind, config, disabled=True)]}


def _buffer(at: HttpRoute) -> dict[str, Data]:
    if at.forward is None or at.tunnel or not at.forward.buffering.request:
        return {}
    return {"typed_per_filter_config": {_BUFFER: ENABLED}}


LIMITS = Contributor(manager=_manager)
MAX_BODY = Contributor(manager=_sizes, route=_size)
BUFFERING = Contributor(manager=_buffers, route=_buffer, spares_tunnels=lambda forward: forward.buffering.request)
