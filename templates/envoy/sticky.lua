--- Maps the id in a sticky cookie to the endpoint's address for Envoy's session filter, and the address back to a cookie.
--- @pools@: `["pool"] = {cookie, attributes, addresses, ids}`.
local pools = {
@pools@}

local function cookie(headers, name)
  for line = 0, headers:getNumValues("cookie") - 1 do
    for pair in string.gmatch(headers:getAtIndex("cookie", line), "[^;]+") do
      local key, value = string.match(pair, "^%s*([^=]-)%s*=%s*(.-)%s*$")
      if key == name then return string.match(value, '^"(.*)"$') or value end
    end
  end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  headers:remove("@header@")
  if headers:get("cookie") == nil then return end
  for _, name in ipairs(handle:filterContext():get("pools") or {}) do
    local pool = pools[name]
    local address = pool.addresses[cookie(headers, pool.cookie) or ""]
    if address ~= nil then
      headers:add("@header@", address)
      return
    end
  end
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local chosen, answered = headers:get("@header@"), headers:get("@answered@")
  headers:remove("@header@")
  headers:remove("@answered@")
  if chosen == nil or answered == nil then return end
  for _, name in ipairs(handle:filterContext():get("pools") or {}) do
    local pool = pools[name]
    local id = pool.ids[chosen]
    if id ~= nil then
      headers:add("set-cookie", pool.cookie .. "=" .. id .. pool.attributes)
      return
    end
  end
end
