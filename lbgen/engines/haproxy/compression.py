"""Compression of responses: a Lua action selects those that HAProxy's filter compresses.

The filter reads the media type right after HAProxy has parsed the head of a response, before any rule runs. So the only
type it compresses is a mark: the Lua action writes the mark over the type of a response that qualifies, and a rule
restores the type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Statement, acl, found, statement
from lbgen.engines.haproxy.timeouts import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Route

_POLICY = "txn.packs"
# gzip by name, with a quality above 0
_ACCEPTS_GZIP = acl(
    r"req.hdr(accept-encoding) -m reg -i '^gzip(?!.*;[ \t]*q[ \t]*=[ \t]*0*\.?0*[ \t]*(;|$))[ \t]*(;|$)'"
)


def request_statements(routes: Iterable[tuple[str, Route]], per_route: PerRoute) -> list[Statement]:
    """Store the policy of the request's route, as `least size, types`. `routes` are (key, route)."""
    policies = {
        key: " ".join((str(route.compression.min_size), *route.compression.types))
        for key, route in routes
        if route.compression
    }
    if not policies:
        return []
    stores = statement(f"http-request set-var-fmt({_POLICY})", when=[_ACCEPTS_GZIP])
    return list(per_route.with_values(stores, policies, "packs"))


def response_statements(origin: str) -> list[Statement]:
    """Statements of a backend that select the responses to compress."""
    return [
        statement(f"tcp-response inspect-delay {LONGEST}", origin=origin),
        statement("tcp-response content lua.pack", when=[found(_POLICY)], origin=origin),
    ]
