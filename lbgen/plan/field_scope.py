"""Which fields of listeners, routes and pools concern requests, endpoints or clients.

A field is for L7 unless it is named here, so that a new one is refused on L4 until somebody says what it does there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.spec.listener import Listener
from lbgen.spec.policy import Timeouts
from lbgen.spec.pool import Connections, Pool
from lbgen.spec.route import Route

if TYPE_CHECKING:
    from pydantic import BaseModel


def fields_but(model: type[BaseModel], *keys: str) -> tuple[str, ...]:
    """The fields of `model` without those of `keys`."""
    return tuple(key for key in model.model_fields if key not in keys)


L7_LISTENER = fields_but(
    Listener,
    *("port", "ports", "address", "tier", "mode", "protocol", "tls", "proxy_protocol", "max_connections", "access"),
    "policies",
)
L7_ROUTE = fields_but(
    Route, *("name", "listeners", "hosts", "sources", "priority", "forward", "timeouts", "access", "policies")
)
L7_TIMES = fields_but(Timeouts, "connect", "idle")
L7_POOL = fields_but(
    Pool,
    *("endpoints", "tier", "listener", "balance", "health", "connections", "tls", "proxy_protocol", "slow_start"),
    "stand_ins",
)
L7_CONNECTIONS = fields_but(Connections, "max_per_endpoint")

FORWARD_ONLY = ("rewrite", "timeouts", "retries", "buffering", "mirror", "request_headers", "compression")
"""Fields of a route that concern its endpoints."""

GUARDS = ("access", "auth")
"""Fields of a route that keep clients out: where one cannot hold, that is an error, and never a route without it."""

TCP_POOL = ("tls", "proxy_protocol")
"""Fields of a pool that need connections."""
