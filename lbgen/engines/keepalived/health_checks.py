"""Active checks as keepalived's checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.keepalived.view import Check, Status
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.plan.model import Endpoint, Pool


def check(pool: Pool, endpoint: Endpoint) -> Check | None:
    """How keepalived checks an endpoint; None when nothing does.

    keepalived asks for each `url` in turn before a failed endpoint is back, so the same one `rise` times asks for
    that many successes in a row. A failed check of an endpoint that is up is repeated `retry` times.
    """
    active = pool.active
    if active is None:
        return None
    return Check(
        path=None if active.path is None else Literal(active.path),
        urls=tuple(range(active.rise)),
        port=active.port or endpoint.port,
        statuses=tuple(Status(first, last) for first, last in active.statuses),
        interval=_seconds(active.interval),
        timeout=_seconds(active.timeout),
        retry=active.fall - 1,
    )


def _seconds(milliseconds: int) -> Atom:
    return Atom.of(r"\d+(\.\d+)?", f"{milliseconds / 1000:.3f}".rstrip("0").rstrip("."))
