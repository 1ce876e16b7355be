--- Removes the headers that Connection nominates beside `upgrade` in a WebSocket handshake, as Envoy does elsewhere.
--- `kept` names framing, and headers that Envoy sets itself or that are replaced later.
local kept = {connection = true, upgrade = true, ["content-length"] = true, ["transfer-encoding"] = true,
  ["x-request-id"] = true, ["x-forwarded-port"] = true}
function envoy_on_request(handle)
  local headers = handle:headers()
  local found = {}
  for at = 0, headers:getNumValues("connection") - 1 do
    for option in string.gmatch(string.lower(headers:getAtIndex("connection", at)), "[^,]+") do
      local name = string.match(option, "^[ \t]*(.-)[ \t]*$")  -- with a blank inside it is no name, as to Envoy itself
      if name ~= "" and not kept[name] then table.insert(found, name) end
    end
  end
  for _, name in ipairs(found) do headers:remove(name) end
  if #found > 0 then headers:replace("connection", "Upgrade") end
end
