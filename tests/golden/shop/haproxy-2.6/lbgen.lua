-- What statements of haproxy.cfg cannot express.

local function lines_of(txn, name)
  local lines = txn.http:req_get_headers()[name]
  local found = {}
  if lines ~= nil then
    for i = 0, #lines do found[#found + 1] = lines[i] end
  end
  return found
end

-- The reason phrase for a request that HAProxy itself answers 400 after it has chosen an endpoint.
core.register_fetches("bad_body", function(txn)
  if txn:get_var("txn.too_large") then return "Content Too Large" end
  if txn:get_var("txn.over") then return "Gateway Timeout" end
  if txn.req:may_recv() then return "Bad Request" end
  txn:set_var("txn.stopped", true) -- the client's time expired
  return "Request Timeout"
end)

-- Removes the headers that a Connection header names (RFC 9110 7.6.1), and Connection itself, apart from a WebSocket
-- upgrade.
local not_nominated = { host = true, ["content-length"] = true, ["transfer-encoding"] = true }

core.register_action("drop_nominated", { "http-req" }, function(txn)
  local headers = txn.http:req_get_headers()
  local lines, upgrade = headers["connection"], headers["upgrade"]
  local offers = upgrade and #upgrade == 0 and upgrade[0]:lower() == "websocket" and txn.f:method() == "GET"
  local websocket = false
  for i = 0, lines and #lines or -1 do
    for token in lines[i]:gmatch("[^,%s]+") do
      local name = token:lower()
      if offers and name == "upgrade" then
        websocket = true
      elseif not not_nominated[name] then
        txn.http:req_del_header(name)
      end
    end
  end
  txn.http:req_del_header("connection")
  if websocket then
    txn:set_var("txn.websocket", true)
    txn.http:req_set_header("connection", "Upgrade")
  end
end)

-- The same for a response.
core.register_action("drop_nominated_response", { "http-res" }, function(txn)
  local lines = txn.http:res_get_headers()["connection"]
  for i = 0, lines and #lines or -1 do
    for token in lines[i]:gmatch("[^,%s]+") do
      local name = token:lower()
      if not not_nominated[name] then txn.http:res_del_header(name) end
    end
  end
  txn.http:res_del_header("connection")
end)

-- Joins the lines of a header that are not empty into one.
core.register_action("join_filled", { "http-req" }, function(txn, name)
  local filled = {}
  for _, value in ipairs(lines_of(txn, name)) do
    if value ~= "" then filled[#filled + 1] = value end
  end
  txn.http:req_set_header(name, table.concat(filled, ", "))
end, 1)

-- Turns the absolute form of a target into the origin form. txn.other_host: it names another host than Host does.
core.register_action("origin_form", { "http-req" }, function(txn)
  local authority = txn.f:url():match("^[^/]*//([^/?]*)")
  if authority == nil or authority:lower() ~= (txn.f:req_fhdr("host") or ""):lower() then
    txn:set_var("txn.other_host", true)
    return
  end
  local target = txn.f:pathq()
  txn.http:req_set_uri((target == nil or target == "") and "/" or target)
end)
