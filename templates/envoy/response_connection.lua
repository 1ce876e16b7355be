--- Removes the headers that Connection nominates in a response. `kept` names framing, which Envoy replaces, and the status.
local kept = {[":status"] = true, connection = true, host = true, ["content-length"] = true, ["transfer-encoding"] = true}
function envoy_on_response(handle)
  local headers = handle:headers()
  local upgraded = headers:get(":status") == "101"
  local found = {}
  for at = 0, headers:getNumValues("connection") - 1 do
    for option in string.gmatch(string.lower(headers:getAtIndex("connection", at)), "[^,]+") do
      local name = string.match(option, "^[ \t]*(.-)[ \t]*$")
      if name ~= "" and not kept[name] and not (upgraded and name == "upgrade") then table.insert(found, name) end
    end
  end
  for _, name in ipairs(found) do headers:remove(name) end
end
