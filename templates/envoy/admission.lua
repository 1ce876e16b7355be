--- Refuses a request above its route's concurrency or rate. Appended to shared_counters.lua.
--- @limits@: `["route"] = {max, max_key, index, rate_key, rate, burst}`; @rates@: the number of rates in shared memory.

local limits = {
@limits@}
local state = shared(@rates@)

local function key_of(handle, kind)
  if kind == "route" then return "" end
  if kind == "client" then
    local address = string.gsub(handle:streamInfo():downstreamRemoteAddress(), ":%d+$", "")
    return (string.gsub(address, "^%[::ffff:([%d.]+)%]$", "%1"))
  end
  local value = handle:headers():get(string.sub(kind, #"header " + 1))
  if value ~= "" then return value end
end

local function refuse(handle) handle:respond({[":status"] = "429"}, "Too Many Requests\n") end

function envoy_on_request(handle)
  local name = handle:filterContext():get("route")
  local limit = limits[name or ""]
  if limit == nil then return end
  local place
  if limit.max ~= nil then
    local key = key_of(handle, limit.max_key)
    if key ~= nil then
      place = name .. "\n" .. key
      if not enter(state, place, limit.max) then return refuse(handle) end
      handle:streamInfo():dynamicMetadata():set("@metadata@", "@slot@", place)
    end
  end
  if limit.burst ~= nil then
    local key = key_of(handle, limit.rate_key)
    if key ~= nil and not take(state, limit.index, key, limit.rate, limit.burst) then return refuse(handle) end
  end
end
