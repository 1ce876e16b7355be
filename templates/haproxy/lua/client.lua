-- The client's address: the peer's, or the one that trusted proxies forward. That is the rightmost address of the list
-- that is no trusted proxy; an element that is no address ends the search.
local networks = {} -- text of a list -> the networks

local function networks_of(text)
  if networks[text] == nil then
    local found = {}
    for each in text:gmatch("[^,]+") do found[#found + 1] = core.parse_addr(each) end
    networks[text] = found
  end
  return networks[text]
end

-- An address, an IPv4 one also where it is mapped to IPv6; nil for no address.
local function address(txn, text)
  local plain = text:match("^%d+%.%d+%.%d+%.%d+$") or text:match("^[%x:.]*:[%x:.]*$")
  return plain and core.parse_addr(plain) and (txn.c:ipmask(plain, 32) or plain)
end

core.register_action("client", { "http-req" }, function(txn, trusted)
  local hops = {}
  for _, value in ipairs(lines_of(txn, "x-forwarded-for")) do
    for hop in value:gmatch("[^,]+") do hops[#hops + 1] = hop:match("^%s*(.-)%s*$") end
  end
  for i = #hops, 1, -1 do
    local found = address(txn, hops[i])
    if not found then return end
    txn:set_var("txn.client", found)
    local inside = false
    for _, network in ipairs(networks_of(trusted)) do
      inside = inside or core.match_addr(core.parse_addr(found), network)
    end
    if not inside then return end
  end
end, 1)
