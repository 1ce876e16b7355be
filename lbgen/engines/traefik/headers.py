"""Edits of header fields, and fields with underscores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.traefik import names
from lbgen.engines.traefik.view import Contributor, HttpRoute
from lbgen.plan.model import HeaderEdits, Listener

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_TRACE = ("x-replaced-path",)  # what a rewrite adds to a request


def _values(edits: HeaderEdits) -> dict[str, Data]:
    """Values by name; an empty one removes the field. An added line replaces, as Traefik cannot add."""
    values: dict[str, Data] = {title(name): "" for name in edits.remove}
    values.update((title(name), value) for name, value in (*edits.set, *edits.add) if isinstance(value, str))
    return values


def title(name: str) -> str:
    """`x-request-id` as `X-Request-Id`, the form of Go."""
    return "-".join(part.capitalize() for part in name.split("-"))


def build_edits(request: HeaderEdits | None, response: HeaderEdits | None = None) -> dict[str, Data]:
    """The middleware of these edits; empty for none."""
    data: dict[str, Data] = {}
    if request:
        data["customRequestHeaders"] = _values(request)
    if response:
        data["customResponseHeaders"] = _values(response)
    return {"headers": data} if data else {}


def _early(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    """Before what answers by itself, so that such answers have the headers too."""
    if at.answered and not at.route.response_headers.is_dynamic:
        yield "headers", build_edits(None, at.route.response_headers)


def _late(at: HttpRoute) -> Iterator[tuple[str, dict[str, Data]]]:
    if at.forward is not None:
        own = at.route.response_headers
        yield "headers", build_edits(_request_edits(at), None if at.answered or own.is_dynamic else own)


def _request_edits(at: HttpRoute) -> HeaderEdits:
    """The route's, unless the plugin makes them, and what its rewrite needs."""
    edits, rewrite = at.route.request_headers, None if at.forward is None else at.forward.rewrite
    if edits.is_dynamic:
        edits = HeaderEdits(set=tuple(each for each in edits.set if each[0] in _TRACE))
    if rewrite is None:
        return edits
    if rewrite.prefix is not None or rewrite.path is not None:
        edits = replace(edits, remove=(*edits.remove, *(n for n in _TRACE if n not in dict(edits.set))))
    return edits if rewrite.host is None else replace(edits, set=(*edits.set, ("host", rewrite.host)))


def _aliases(listener: Listener, version: str) -> dict[str, Data]:
    """Fields that an endpoint could take for another, such as X_Real_IP or X.Real.IP, are dropped."""
    dropped = not listener.underscores and names.has_alias_headers(version)
    return {"aliasHeadersStrategy": "delete"} if dropped else {}


EARLY_HEADERS = Contributor(http=_aliases, middlewares=_early)
HEADERS = Contributor(middlewares=_late)
