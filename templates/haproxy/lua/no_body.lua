-- The reason phrase for a request that HAProxy itself answers 408 while it waits for the body: the client's time
-- expired, or the request's, which is the last number of txn.times.
core.register_fetches("no_body", function(txn)
  local most = tonumber((txn:get_var("txn.times") or ""):match("(%d+)$"))
  if not most or most == 0 or txn.f:date(0, "ms") - txn:get_var("txn.begun_ms") < most then return "Request Timeout" end
  txn:set_var("txn.over", true)
  return "Gateway Timeout"
end)
