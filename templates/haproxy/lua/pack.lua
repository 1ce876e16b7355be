-- Compression: a mark replaces the media type of a response to compress, before HAProxy's filter reads it.
local packed = {} -- by text of a route's policy: least size, types

local function packed_by(told)
  if packed[told] == nil then
    local found = { types = {} }
    for word in told:gmatch("%S+") do
      if found.least then found.types[word] = true else found.least = tonumber(word) end
    end
    packed[told] = found
  end
  return packed[told]
end

local function fits_packing(policy, headers)
  local types, length = headers["content-type"], headers["content-length"]
  if types == nil or #types > 0 or headers["content-encoding"] ~= nil then return nil end
  local media = types[0]:match("^[ \t]*([^;]-)[ \t]*$") or types[0]:match("^[ \t]*([^;]-)[ \t]*;")
  if not policy.types[media:lower()] or (length and tonumber(length[0]) < policy.least) then return nil end
  local control = headers["cache-control"]
  for i = 0, control and #control or -1 do
    if control[i]:lower():find("no-transform", 1, true) then return nil end
  end
  return types[0]
end

core.register_action("pack", { "tcp-res" }, function(txn)
  if txn.res:input() == 0 and txn.res:may_recv() then return act.YIELD end
  if txn.res:input() > 0 and txn.f:status() == 200 then
    local kind = fits_packing(packed_by(txn:get_var("txn.packs")), txn.http:res_get_headers())
    if kind then
      txn:set_var("txn.type", kind)
      txn.http:res_set_header("content-type", "lbgen:pack")
    end
  end
  return act.CONTINUE
end)
