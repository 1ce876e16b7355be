-- The reason phrase for a request that HAProxy itself answers 503; `late` is 95 % of the connect time, in us.
core.register_fetches("failure", function(txn, late)
  local sent = txn:get_var("txn.sent")
  if txn.f:srv_id() == nil or sent == nil then return "Service Unavailable" end
  local passed = txn.f:date(0, "us") - sent -- the clock of `sent`; core.now lags behind it on a busy machine
  local is_late = passed >= tonumber(late)
  txn:set_var("txn.failed", is_late and 504 or 502)
  return is_late and "Gateway Timeout" or "Bad Gateway"
end)
