"""Connection options: filters that remove the headers which Connection nominates, where Envoy does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.conditional_filters import skip_where
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.predicates import any_of, header_matches, not_
from lbgen.engines.envoy.protobuf import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data


_NOTHING = "(?i:close|keep-alive)"


_CODEC: dict[str, Data] = extension("codec", "filters.http.upstream_codec.v3.UpstreamCodec")


def build_upstream_filters(*others: Data) -> list[Data]:
    """The filters between a route's edits and the endpoint: `others`, then one that removes the headers nominated by a
    response's Connection, skipped where it nominates none."""
    nothing = any_of(
        not_(header_matches("connection", ".*", "Response")), header_matches("connection", _NOTHING, "Response")
    )
    return [
        *others,
        skip_where(nothing, build_lua_filter("response-connection", load_lua("response_connection"))),
        _CODEC,
    ]


def build_handshake_filter() -> dict[str, Data]:
    """The filter for WebSocket handshakes, skipped where Connection has at most one element."""
    return skip_where(not_(header_matches("connection", ".*,.*")), build_lua_filter("handshake", load_lua("handshake")))
