"""WebSocket handshakes -> a Lua filter that drops what Connection names beside the upgrade, as Envoy does elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.conditional_filters import skip_where
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.predicates import any_of, header_matches, not_
from lbgen.engines.envoy.typed_config import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# What it keeps is framing, Envoy's own, or made anew.


_NOTHING = "(?i:close|keep-alive)"
# Framing, which Envoy makes anew.


_CODEC: dict[str, Data] = extension("codec", "filters.http.upstream_codec.v3.UpstreamCodec")


def build_upstream_filters(*others: Data) -> list[Data]:
    """Filters between a route's edits and the endpoint: `others`, then one that drops the fields that Connection names
    in a response, skipped where it names none."""
    nothing = any_of(
        not_(header_matches("connection", ".*", "Response")), header_matches("connection", _NOTHING, "Response")
    )
    return [
        *others,
        skip_where(nothing, build_lua_filter("response-connection", load_lua("response_connection"))),
        _CODEC,
    ]


def build_handshake_filter() -> dict[str, Data]:
    """The filter, skipped where Connection has one element, or is gone as nothing is upgraded."""
    return skip_where(not_(header_matches("connection", ".*,.*")), build_lua_filter("handshake", load_lua("handshake")))
