-- What statements of haproxy.cfg cannot express.

-- The reason phrase for a request that HAProxy itself answers 400 after it has chosen an endpoint.
local function fail(txn, status, phrase)
  txn:set_var("txn.failed", status)
  return phrase
end

core.register_fetches("bad_body", function(txn)
  if txn:get_var("txn.too_large") then return fail(txn, 413, "Content Too Large") end
  if txn:get_var("txn.over") then return fail(txn, 504, "Gateway Timeout") end
  if txn.req:may_recv() then return "Bad Request" end
  return fail(txn, 408, "Request Timeout") -- the client's time expired
end)

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

-- The reason phrase for a request that HAProxy itself answers 503; `late` is 95 % of the connect time, in us.
core.register_fetches("failure", function(txn, late)
  local sent = txn:get_var("txn.sent")
  if txn.f:srv_id() == nil or sent == nil then return "Service Unavailable" end
  local passed = txn.f:date(0, "us") - sent -- the clock of `sent`; core.now lags behind it on a busy machine
  local is_late = passed >= tonumber(late)
  txn:set_var("txn.failed", is_late and 504 or 502)
  return is_late and "Gateway Timeout" or "Bad Gateway"
end)

-- Answers 502 where an endpoint closes without a response: HAProxy would close a kept client connection. Where its time
-- is over instead, HAProxy answers 504; where the client has left, no answer is needed.
core.register_action("no_response", { "tcp-res" }, function(txn)
  if not txn.req:may_recv() then return end
  local since = txn:get_var("txn.sent") or txn:get_var("txn.queued")
  if since == nil or txn.f:date(0, "us") - since >= txn.f:cur_server_timeout() * 950 then return end
  local reply = txn:reply()
  reply:set_status(502, "Bad Gateway")
  reply:add_header("content-type", "text/plain")
  reply:set_body("Bad Gateway\n")
  txn:done(reply)
end)

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
