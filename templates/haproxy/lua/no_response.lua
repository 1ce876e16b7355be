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
