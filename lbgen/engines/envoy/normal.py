"""`paths: normalize` -> a first route for targets that are not in their normal form, and the Lua filter it switches on.

The filter rewrites such a target and has the route looked up again. Envoy decides by the first route which filters
there are, so that one has all that a route of the listener may want; what they do is up to the route found then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.forwarded import lua
from lbgen.engines.envoy.limiting import SWITCHED_ON
from lbgen.engines.envoy.strict import UNRESERVED
from lbgen.engines.envoy.values import regex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data

NORMAL = "normal-form"
# An empty segment, an escape of an unreserved character, a segment of one or two dots.
_ODD = rf"\C*(?://\C*|%(?:{UNRESERVED}|2[Ee])\C*|/\.\.?(?:/\C*)?)"
_CODE = """\
local function plain(hex)
  local char = string.char(tonumber(hex, 16))
  if string.match(char, "[%w%-%._~]") then return char end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local path, query = string.match(headers:get(":path"), "^([^?]*)(.*)$")
  path = string.gsub(string.gsub(path, "%%(%x%x)", plain), "//+", "/")
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
end
"""


def normal_filter() -> dict[str, Data]:
    """The filter, off until the first route switches it on."""
    return {**lua(NORMAL, _CODE), "disabled": True}


def odd_route(filters: Iterable[dict[str, Data]]) -> dict[str, Data]:
    """The route for targets that are not in their normal form, with all of `filters` that are off."""
    names = [str(each["name"]) for each in filters if each.get("disabled")]
    return {
        "match": regex(_ODD),
        "direct_response": {"status": 400, "body": {"inline_string": "Bad Request\n"}},
        "typed_per_filter_config": dict.fromkeys(names, SWITCHED_ON),
    }
