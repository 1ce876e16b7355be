"""`paths: normalize` -> a first route for targets that are not in their normal form, and the Lua filter it switches on.

The filter rewrites such a target and has the route looked up again. Envoy decides by the first route which filters
there are, so that one has all that a route of the listener may want; what they do is up to the route found then.

`paths: verbatim` -> a Lua filter for targets that go up, which refuses those that lead above the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.conditional_filters import header_matches, not_, skip_where
from lbgen.engines.envoy.limits import ENABLED
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.paths import UNRESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data

NORMALIZE = "normal-form"
# An empty segment, an escape of an unreserved character, a segment of one or two dots.
_NOT_NORMAL = rf"\C*(?://\C*|%(?:{UNRESERVED}|2[Ee])\C*|/\.\.?(?:/\C*)?)"
# What may not be escaped is refused here: it may stand in a segment that goes away.
_WITH_DOT_DOT = r"[^?]*(?:/|%2[Ff])(?:\.|%2[Ee])(?:\.|%2[Ee])(?:(?:/|%2[Ff])[^?]*)?(?:\?.*)?"


def build_normalize_filter() -> dict[str, Data]:
    """The filter, off until the first route switches it on."""
    return build_lua_filter(NORMALIZE, load_lua("normalize"), disabled=True)


def build_above_root_filter() -> dict[str, Data]:
    """The filter for paths as they are."""
    above_root = build_lua_filter("above-root", load_lua("above_root"))
    return skip_where(not_(header_matches(":path", _WITH_DOT_DOT)), above_root)


def build_non_normal_route(filters: Iterable[dict[str, Data]]) -> dict[str, Data]:
    """The route for targets that are not in their normal form, with all of `filters` that are off."""
    names = [str(each["name"]) for each in filters if each.get("disabled")]
    return {
        "match": regex(_NOT_NORMAL),
        "direct_response": {"status": 400, "body": {"inline_string": "Bad Request\n"}},
        "typed_per_filter_config": dict.fromkeys(names, ENABLED),
    }
