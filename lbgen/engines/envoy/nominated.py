"""WebSocket handshakes -> a Lua filter that drops what Connection names beside the upgrade, as Envoy does elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.delegate import header_like, negated, unless
from lbgen.engines.envoy.forwarded import lua

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# What it keeps is framing, Envoy's own, or made anew.
_CODE = """\
local kept = {connection = true, upgrade = true, ["content-length"] = true, ["transfer-encoding"] = true,
  ["x-request-id"] = true, ["x-forwarded-port"] = true}
function envoy_on_request(handle)
  local headers = handle:headers()
  local found = {}
  for at = 0, headers:getNumValues("connection") - 1 do
    for name in string.gmatch(string.lower(headers:getAtIndex("connection", at)), "[^,%s]+") do
      if not kept[name] then table.insert(found, name) end
    end
  end
  for _, name in ipairs(found) do headers:remove(name) end
  if #found > 0 then headers:replace("connection", "Upgrade") end
end
"""


def handshake_filter() -> dict[str, Data]:
    """The filter, skipped where Connection has one element, or is gone as nothing is upgraded."""
    return unless(negated(header_like("connection", ".*,.*")), lua("handshake", _CODE))
