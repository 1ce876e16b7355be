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

-- The reason phrase for a request that HAProxy itself answers 503; `late` is 95 % of the connect time, in us.
core.register_fetches("failure", function(txn, late)
  local sent = txn:get_var("txn.sent")
  if txn.f:srv_id() == nil or sent == nil then return "Service Unavailable" end
  local passed = txn.f:date(0, "us") - sent -- the clock of `sent`; core.now lags behind it on a busy machine
  local is_late = passed >= tonumber(late)
  txn:set_var("txn.failed", is_late and 504 or 502)
  return is_late and "Gateway Timeout" or "Bad Gateway"
end)

-- Counts the bytes of a body without Content-Length, and ends the request above the route's limit.
local Measured = { id = "body size", flags = filter.FLT_CFG_FL_HTX }
Measured.__index = Measured

function Measured:new()
  return setmetatable({ seen = 0 }, Measured)
end

function Measured:http_headers(txn, message)
  if message:is_resp() then return end
  self.most = txn:get_var("txn.max_body")
  if self.most and txn.http:req_get_headers()["content-length"] == nil then
    filter.register_data_filter(self, message.channel)
  end
end

function Measured:http_payload(txn, message)
  self.seen = self.seen + #(message:body() or "") -- nil where there is none: a GET
  if self.seen > self.most then
    txn:set_var("txn.too_large", true)
    error("body over max_body") -- HAProxy offers no other way to end a message here; its 400 becomes 413
  end
end

core.register_filter("measured", Measured, function(made, args) return made end)
