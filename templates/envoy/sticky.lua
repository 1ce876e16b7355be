--- Maps the id in a sticky cookie to the endpoint's address for Envoy's session filter, and the address back to a cookie.
--- @pools@: `["pool"] = {cookie, attributes, addresses, ids}`.
local pools = {
@pools@}
for _, pool in pairs(pools) do pool.pattern = "[;, ]" .. pool.cookie:gsub("%p", "%%%0") .. '="?([^;, "]+)' end

function envoy_on_request(handle)
  local headers = handle:headers()
  headers:remove("@header@")
  for _, name in ipairs(handle:filterContext():get("pools") or {}) do
    for id in string.gmatch(";" .. (headers:get("cookie") or ""), pools[name].pattern) do
      local address = pools[name].addresses[id]
      if address ~= nil then return headers:add("@header@", address) end
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
    local pool, id = pools[name], pools[name].ids[chosen]
    if id ~= nil then return headers:add("set-cookie", pool.cookie .. "=" .. id .. pool.attributes) end
  end
end
