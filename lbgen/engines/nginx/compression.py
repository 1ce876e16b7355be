"""gzip for responses of endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.strings import directive
from lbgen.engines.text import Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.view import Line
    from lbgen.plan.model import Forward, Route
    from lbgen.plan.policy import Compression

_HTML = "text/html"  # which nginx compresses always, and whose listing it warns of


def response_lines(route: Route, action: Forward, module: str, *, buffers: bool) -> tuple[Line, ...]:
    """The directives for the buffering and the compression of responses; `buffers`: the http block has buffering on.
    Where nginx buffers, its gzip holds back what an endpoint has sent until there is more; the gRPC module never
    buffers."""
    asked = action.buffering.response
    own = (buffers and route.compression is None) if asked is None else asked
    switch = (directive("proxy_buffering", "on" if own else "off"),) if own != buffers and module == "proxy" else ()
    return (*switch, *(_gzip_lines(route.compression) if route.compression is not None else ()))


def _gzip_lines(policy: Compression) -> tuple[Line, ...]:
    types = tuple(Literal(media) for media in policy.types if media != _HTML)
    return (
        directive("gzip", "on"),
        *((directive("gzip_types", *types),) if types else ()),
        directive("gzip_min_length", str(policy.min_size)),
        directive("gzip_proxied", "any"),
        directive("gzip_http_version", "1.0"),
        directive("gzip_vary", "on"),
    )
