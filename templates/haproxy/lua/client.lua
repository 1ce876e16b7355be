-- The client's address behind trusted proxies: the rightmost one of a header that is no trusted proxy. An element that
-- is no address ends the search.
local networks = {} -- text of a list -> the networks

local function networks_of(text)
  if networks[text] == nil then
    networks[text] = {}
    for each in text:gmatch("[^,]+") do table.insert(networks[text], core.parse_addr(each)) end
  end
  return networks[text]
end

local function node_of(element) -- what Forwarded (RFC 7239) says in for="[2001:db8::1]"
  local value = (";" .. element:lower()):match(";%s*for=([^;]*)") or ""
  return value:match('^"%[([%x:.]+)%]"%s*$') or value:match('^"?([%d.]+)"?%s*$') or ""
end

core.register_action("client", { "http-req" }, function(txn, header, trusted)
  local lines, hops = txn.http:req_get_headers()[header], {}
  for i = 0, lines and #lines or -1 do
    for hop in lines[i]:gmatch("[^,]+") do
      table.insert(hops, header == "forwarded" and node_of(hop) or hop:match("^%s*(.-)%s*$"))
    end
  end
  for i = #hops, 1, -1 do
    local plain = hops[i]:match("^%d+%.%d+%.%d+%.%d+$") or hops[i]:match("^[%x:.]*:[%x:.]*$")
    if not (plain and core.parse_addr(plain)) then return end
    local found = txn.c:ipmask(plain, 32) or plain -- IPv4 may be written as IPv6
    txn:set_var("txn.client", found)
    local inside = false
    for _, network in ipairs(networks_of(trusted)) do
      inside = inside or core.match_addr(core.parse_addr(found), network)
    end
    if not inside then return end
  end
end, 2)
