"""Which fields of routes and pools concern requests, endpoints or clients: for checks, and for what defaults reach."""

from __future__ import annotations

L7_ROUTE = (
    *("match", "redirect", "respond", "rewrite", "retries", "rate_limit", "concurrency", "max_body", "buffering"),
    *("request_headers", "response_headers", "mirror", "cors", "compression", "auth", "error_pages"),
)
"""Fields of a route that need an L7 listener."""

L7_TIMES = ("response", "request")
"""Timeouts of a route that need an L7 listener."""

FORWARD_ONLY = ("rewrite", "timeouts", "retries", "buffering", "mirror", "request_headers", "compression")
"""Fields of a route that concern its endpoints."""

GUARDS = ("access", "auth")
"""Fields of a route that keep clients out: where one cannot hold, that is an error, and never a route without it."""

L7_POOL = ("sticky", "protocol")
L7_CONNECTIONS = ("keepalive", "keepalive_idle", "queue")
TCP_POOL = ("tls", "proxy_protocol")
"""Fields of a pool that need L7 routes, those in its `connections`, and fields that need connections."""
