"""Connection options: filters that remove the headers which Connection nominates, where Envoy does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.comments import explain_filter
from lbgen.engines.envoy.conditional_filters import run_first, skip_where_header_is
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.predicates import header_matches, not_
from lbgen.engines.envoy.protobuf import extension

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_CODEC: dict[str, Data] = extension("codec", "filters.http.upstream_codec.v3.UpstreamCodec")
_LIST = r"\C*,\C*"
_USUAL = ("close", "keep-alive", "Close", "Keep-Alive")  # in other letters they run the script, like any other name
_IS_THERE = header_matches("connection", r"\C+", "Response")


def build_upstream_filters(*others: Data, options: bool = True) -> list[Data]:
    """The filters between a route's edits and the endpoint: `others`, then with `options` one that removes the headers
    nominated by a response's Connection, skipped where it nominates none. Empty where Envoy's own will do."""
    nominated = build_lua_filter("response-connection", load_lua("response_connection"))
    found = list(others)
    if options:
        drops = skip_where_header_is("connection", _USUAL, not_(_IS_THERE), nominated, "Response")
        found.append(explain_filter(drops))
    return [*found, _CODEC] if found else []


def build_handshake_filter() -> dict[str, Data]:
    """The filter for WebSocket handshakes, skipped where Connection has at most one element."""
    return run_first(
        "handshake", (header_matches("connection", _LIST), build_lua_filter("handshake", load_lua("handshake")))
    )
