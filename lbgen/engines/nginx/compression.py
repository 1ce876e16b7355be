"""Buffering of requests and responses, and gzip for responses of endpoints."""

from __future__ import annotations

from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, HttpForward, Lines
from lbgen.engines.text import Literal
from lbgen.plan.policy import Compression

_HTML = "text/html"  # which nginx compresses always, and whose listing it warns of


def _forward(at: HttpForward) -> Lines:
    """Where nginx buffers, its gzip holds back what an endpoint has sent until there is more; the gRPC module never
    buffers."""
    gzip, asked = at.route.compression, at.action.buffering
    is_proxy, buffers = at.protocol.module == "proxy", not at.on.has_tls
    if asked.request and is_proxy:
        yield directive("proxy_request_buffering", "on")
    own = (buffers and gzip is None) if asked.response is None else asked.response
    if own != buffers and is_proxy:
        yield directive("proxy_buffering", "on" if own else "off")
    if gzip is not None:
        yield from _gzip_lines(gzip)


def _gzip_lines(policy: Compression) -> Lines:
    yield directive("gzip", "on")
    if types := [Literal(media) for media in policy.types if media != _HTML]:
        yield directive("gzip_types", *types)
    yield directive("gzip_min_length", str(policy.min_size))
    yield directive("gzip_proxied", "any")
    yield directive("gzip_http_version", "1.0")
    yield directive("gzip_vary", "on")


COMPRESSION = Contributor(forward=_forward)
