-- The reason phrase for a request that HAProxy itself answers 400 after it has chosen an endpoint.
core.register_fetches("bad_body", function(txn)
  if txn:get_var("txn.too_large") then return "Content Too Large" end
  if txn:get_var("txn.over") then return "Gateway Timeout" end
  if txn.req:may_recv() then return "Bad Request" end
  txn:set_var("txn.stopped", true) -- the client's time expired
  return "Request Timeout"
end)
