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
