-- What statements of haproxy.cfg cannot express.

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
