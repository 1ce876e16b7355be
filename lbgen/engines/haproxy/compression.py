"""Compression of routes -> what a Lua action needs to pick the answers that HAProxy's filter packs.

The filter looks at the media type right after HAProxy has read the head of an answer, before any rule could. So its one
type is a mark that the action puts in place of the type of an answer that fits; a rule puts the type back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.statements import Line, line
from lbgen.engines.haproxy.upstream_servers import NEVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.plan.model import Route

PACKS = "txn.packs"
# gzip by name with a quality above 0
_ASKED = (
    "{ req.hdr(accept-encoding) -m reg -i "
    r"'^gzip(?!.*;[ \t]*q[ \t]*=[ \t]*0*\.?0*[ \t]*(;|$))[ \t]*(;|$)' }"
)


def packing(routes: Iterable[tuple[str, Route]]) -> dict[str, str]:
    """`least size, types` by the key of each route that compresses."""
    return {
        key: " ".join((str(route.compression.min_size), *route.compression.types))
        for key, route in routes
        if route.compression
    }


def asking_lines(packed: dict[str, str], chooser: Chooser) -> list[Line]:
    """Which answers would be compressed for this request. Another head (100) must not come before the answer's: who
    asks for it gets it from HAProxy."""
    if not packed:
        return []
    told = f"{{ var({PACKS}) -m found }}"
    return [
        *chooser.valued((f"http-request set-var-fmt({PACKS})",), packed, "packs", _ASKED),
        line("", f"http-request wait-for-body time {NEVER} at-least 1 if", told, "{ req.fhdr(expect) -m found }"),
    ]


def marking_lines(origin: str) -> Sequence[Line]:
    """Statements of a backend whose answers may be compressed."""
    return (
        line(origin, f"tcp-response inspect-delay {NEVER}"),
        line(origin, f"tcp-response content lua.pack if {{ var({PACKS}) -m found }}"),
    )
