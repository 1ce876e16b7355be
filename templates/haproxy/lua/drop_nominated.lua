-- Removes the headers of one connection: Connection and what it names (RFC 9110 7.6.1), Upgrade and others, apart from
-- a WebSocket upgrade.
local of_one_connection = { "connection", "keep-alive", "proxy-connection", "te", "trailer" }
local not_nominated = { [""] = true, host = true, ["content-length"] = true, ["transfer-encoding"] = true }

-- The elements of a Connection line, in lower case; one with a blank inside is no name of a header.
local function options(line)
  local next_option = line:lower():gmatch("[^,]+")
  return function()
    local option = next_option()
    return option and option:match("^[ \t]*(.-)[ \t]*$")
  end
end

core.register_action("drop_nominated", { "http-req" }, function(txn)
  local headers = txn.http:req_get_headers()
  local lines, upgrade = headers["connection"], headers["upgrade"]
  local offers = upgrade and #upgrade == 0 and upgrade[0]:lower() == "websocket" and txn.f:method() == "GET"
  local websocket = false
  for i = 0, lines and #lines or -1 do
    for name in options(lines[i]) do
      if offers and name == "upgrade" then
        websocket = true
      elseif not not_nominated[name] then
        txn.http:req_del_header(name)
      end
    end
  end
  if headers["host"] == nil then txn.http:req_del_header("x-forwarded-host") end -- which is made of Host
  for _, name in ipairs(of_one_connection) do txn.http:req_del_header(name) end
  if websocket then
    txn:set_var("txn.websocket", true)
    txn.http:req_set_header("connection", "Upgrade")
  else
    txn.http:req_del_header("upgrade")
  end
end)

-- The same for a response.
core.register_action("drop_nominated_response", { "http-res" }, function(txn)
  local lines = txn.http:res_get_headers()["connection"]
  for i = 0, lines and #lines or -1 do
    for name in options(lines[i]) do
      if not not_nominated[name] then txn.http:res_del_header(name) end
    end
  end
  txn.http:res_del_header("connection")
end)
