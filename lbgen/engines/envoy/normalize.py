"""`paths: normalize` -> a first route for targets that are not in their normal form, and the Lua filter it switches on.

The filter rewrites such a target and has the route looked up again. Envoy decides by the first route which filters
there are, so that one has all that a route of the listener may want; what they do is up to the route found then.

`paths: verbatim` -> a Lua filter for targets that go up, which refuses those that lead above the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.conditional_filters import header_matches, not_, skip_where
from lbgen.engines.envoy.forwarded_headers import build_lua_filter
from lbgen.engines.envoy.limits import ENABLED
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.paths import UNRESERVED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data

NORMALIZE = "normal-form"
# An empty segment, an escape of an unreserved character, a segment of one or two dots.
_NOT_NORMAL = rf"\C*(?://\C*|%(?:{UNRESERVED}|2[Ee])\C*|/\.\.?(?:/\C*)?)"
# What may not be escaped is refused here: it may stand in a segment that goes away.
_CODE = """\
function envoy_on_request(handle)
  local headers = handle:headers()
  local path, query = string.match(headers:get(":path"), "^([^?]*)(.*)$")
  local refused = false
  path = string.gsub(path, "%%(%x?%x?)", function(hex)
    local char = #hex == 2 and string.char(tonumber(hex, 16)) or "/"
    if string.match(char, "[%c/\\\\]") then refused = true end
    if string.match(char, "[%w%-%._~]") then return char end
  end)
  if refused then return handle:respond({[":status"] = "400"}, "Bad Request\\n") end
  path = string.gsub(path, "//+", "/")
  local found, dots = {}, false
  for segment in string.gmatch(path, "/([^/]*)") do
    dots = segment == "." or segment == ".."
    if not dots then
      table.insert(found, segment)
    elseif segment == ".." and table.remove(found) == nil then
      return handle:respond({[":status"] = "400"}, "Bad Request\\n")
    end
  end
  if dots and #found > 0 then table.insert(found, "") end
  headers:replace(":path", "/" .. table.concat(found, "/") .. query)
  handle:clearRouteCache()
  handle:metadata()  -- looks the route up, which Envoy only does while there is an X-Forwarded-Proto
end
"""
_WITH_DOT_DOT = r"[^?]*(?:/|%2[Ff])(?:\.|%2[Ee])(?:\.|%2[Ee])(?:(?:/|%2[Ff])[^?]*)?(?:\?.*)?"
_ABOVE_ROOT = """\
function envoy_on_request(handle)
  local path = string.match(handle:headers():get(":path"), "^[^?]*")
  path = string.gsub(string.gsub(path, "%%2[Ff]", "/"), "%%2[Ee]", ".")
  local depth = 0
  for segment in string.gmatch(path, "/([^/]*)") do
    if segment == ".." then depth = depth - 1 elseif segment ~= "." then depth = depth + 1 end
    if depth < 0 then return handle:respond({[":status"] = "400"}, "Bad Request\\n") end
  end
end
"""


def build_normalize_filter() -> dict[str, Data]:
    """The filter, off until the first route switches it on."""
    return {**build_lua_filter(NORMALIZE, _CODE), "disabled": True}


def build_above_root_filter() -> dict[str, Data]:
    """The filter for paths as they are."""
    return skip_where(not_(header_matches(":path", _WITH_DOT_DOT)), build_lua_filter("above-root", _ABOVE_ROOT))


def build_non_normal_route(filters: Iterable[dict[str, Data]]) -> dict[str, Data]:
    """The route for targets that are not in their normal form, with all of `filters` that are off."""
    names = [str(each["name"]) for each in filters if each.get("disabled")]
    return {
        "match": regex(_NOT_NORMAL),
        "direct_response": {"status": 400, "body": {"inline_string": "Bad Request\n"}},
        "typed_per_filter_config": dict.fromkeys(names, ENABLED),
    }
