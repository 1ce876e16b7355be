-- Answers 502 where an endpoint closes without a response, as the action no_response does. Where a proxy has filters,
-- HAProxy never ends a request that an action of tcp-response has answered: its connections stay, also dead ones.
local Closed = { id = "closed", flags = filter.FLT_CFG_FL_HTX }
Closed.__index = Closed

function Closed:new() return setmetatable({}, Closed) end

function Closed:start_analyze(txn, channel)
  if not channel:is_resp() or channel:input() > 0 then return filter.CONTINUE end
  if channel:may_recv() then return filter.WAIT end
  local since = txn:get_var("txn.sent") or txn:get_var("txn.queued")
  if since == nil or txn.f:date(0, "us") - since >= txn.f:cur_server_timeout() * 950 then return filter.CONTINUE end
  return filter.ERROR
end

core.register_filter("closed", Closed, function(made, args) return made end)
