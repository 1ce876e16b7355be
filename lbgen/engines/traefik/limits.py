"""Sizes: of heads and of bodies; and buffers for whole bodies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.plan.model import Listener

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_IN_MEMORY = 1024 * 1024  # bytes of a body; the rest is in a file


def _http(listener: Listener, _: str) -> dict[str, Data]:
    limits = listener.limits
    return {} if limits.headers is None else {"maxHeaderBytes": limits.headers + (limits.target or 0)}


def _middlewares(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    if at.route.max_body is not None:
        yield "body", use_plugin("maxBody", at.route.max_body)
    if at.forward is not None and (at.forward.buffering.request or at.forward.buffering.response):
        # Reads bodies of requests and responses whole. The middleware may not be empty.
        yield "buffering", {"buffering": {"memRequestBodyBytes": _IN_MEMORY}}


LIMITS = Contributor(http=_http, middlewares=_middlewares)
