-- What statements of haproxy.cfg cannot express.

-- The reason phrase for a request that HAProxy itself answers 400 after it has chosen an endpoint.
core.register_fetches("bad_body", function(txn)
  if txn:get_var("txn.too_large") then return "Content Too Large" end
  if txn:get_var("txn.over") then return "Gateway Timeout" end
  if txn.req:may_recv() then return "Bad Request" end
  txn:set_var("txn.stopped", true) -- the client's time expired
  return "Request Timeout"
end)

-- Removes the headers that a Connection header names (RFC 9110 7.6.1).
local not_nominated = { host = true, connection = true, ["content-length"] = true, ["transfer-encoding"] = true }

core.register_action("drop_nominated", { "http-req" }, function(txn)
  local lines = txn.http:req_get_headers()["connection"]
  local websocket = txn:get_var("txn.websocket")
  for i = 0, lines and #lines or -1 do
    for token in lines[i]:gmatch("[^,%s]+") do
      local name = token:lower()
      if not not_nominated[name] and not (websocket and name == "upgrade") then txn.http:req_del_header(name) end
    end
  end
end)

-- The same for a response, and Connection itself: HAProxy forwards these headers to the client.
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

-- Answers 502 where an endpoint closes without a response: HAProxy would close a kept client connection. Where its time
-- is over instead, HAProxy answers 504.
core.register_action("no_response", { "tcp-res" }, function(txn)
  local since = txn:get_var("txn.sent") or txn:get_var("txn.queued")
  if since == nil or txn.f:date(0, "us") - since >= txn.f:cur_server_timeout() * 950 then return end
  local reply = txn:reply()
  reply:set_status(502, "Bad Gateway")
  reply:add_header("content-type", "text/plain")
  reply:set_body("Bad Gateway\n")
  txn:done(reply)
end)
