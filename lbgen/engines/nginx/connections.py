"""Connections to endpoints: to which, how many, and how long they are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.timeouts import duration
from lbgen.engines.nginx.view import Contributor, UpstreamPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.nginx.statements import Line
    from lbgen.plan.model import Endpoint


def _endpoint(at: UpstreamPool, endpoint: Endpoint) -> str:
    limit = "" if at.pool.max_per_endpoint is None else f" max_conns={at.pool.max_per_endpoint}"
    return f"{limit}{' backup' if endpoint.backup else ''}{'' if endpoint.is_ip else ' resolve'}"


def _upstream(at: UpstreamPool) -> Iterator[Line]:
    """`keepalive` has to follow the balancing method and `sticky`; from 1.30 on nginx keeps connections without it."""
    if at.on is not None and at.pool.keepalive:
        yield directive("keepalive", str(at.pool.keepalive))
        yield directive("keepalive_timeout", duration(at.pool.keepalive_idle))
    elif at.on is not None and at.pool.keepalive == 0 and at.on.version.upstreams:
        yield directive("keepalive", "0")


ENDPOINTS = Contributor(endpoint=_endpoint)
KEEPALIVE = Contributor(upstream=_upstream)
