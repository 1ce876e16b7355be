-- Times that HAProxy has no timer for: of the response head where bodies may be silent for longer, of a silent body
-- where the head may take longer, and of a whole request. txn.times is "response idle head request" in milliseconds, 0 = not
-- kept here; head is the time of the request until the response head.
local Times = { id = "times", flags = filter.FLT_CFG_FL_HTX }
Times.__index = Times

local function clock()
  local now = core.now()
  return now.sec * 1000 + now.usec / 1000
end

function Times:new() return setmetatable({ begun = clock() }, Times) end

local function earliest(a, b)
  if a == nil or b == nil then return a or b end
  return math.min(a, b)
end

local function wake(due, now)
  filter.wake_time(math.max(math.ceil(due - now), 1))
end

function Times:http_headers(txn, message)
  if message:is_resp() then
    if self.idle or self.finish then
      self.last = clock()
      filter.register_data_filter(self, message.channel)
    end
    return
  end
  local told = txn:get_var("txn.times")
  if told == nil or txn:get_var("txn.websocket") then return end
  local response, idle, request = told:match("^(%d+) (%d+) %d+ (%d+)$")
  local now = clock()
  self.response = response ~= "0" and tonumber(response) or nil
  self.idle = idle ~= "0" and tonumber(idle) or nil
  self.finish = request ~= "0" and self.begun + tonumber(request) or nil -- includes the wait for its body
  self.head = not told:find(" 0 %d+$") and self.finish or nil
  self.sent = now
  local headers = txn.http:req_get_headers() -- HAProxy 2.6: not in the message once the body is complete
  local length = headers["content-length"] and headers["content-length"][0] or "0"
  if (self.response or self.idle) and (length ~= "0" or headers["transfer-encoding"] or not message:eom()) then
    self.sent = nil
    filter.register_data_filter(self, message.channel)
  end
end

-- When an endpoint stops reading, the amount of data that waits for it stays the same.
function Times:taken(txn, message)
  if not self.idle then return end
  local now, waits = clock(), message.channel:output()
  if waits == 0 or waits ~= self.waits then self.waits, self.moved = waits, now end
  if now - self.moved >= self.idle then
    txn:set_var("txn.over", true)
    error("the endpoint does not read") -- HAProxy's 400 becomes 504
  end
  wake(self.moved + self.idle, now)
end

function Times:http_payload(txn, message)
  if not message:is_resp() then return self:taken(txn, message) end
  local now = clock()
  if message:input() > 0 then self.last = now end
  local due = earliest(self.finish, self.idle and self.last + self.idle)
  if now >= due then error("time of the answer is over") end -- HAProxy offers no other way to end a message here
  wake(due, now)
end

function Times:http_end(txn, message)
  if not message:is_resp() then self.sent = clock() end
end

-- Called for each try, until the first byte of the response.
function Times:start_analyze(txn, channel)
  if not channel:is_resp() or not (self.response or self.head) then return filter.CONTINUE end
  if channel:input() > 0 or not channel:may_recv() then
    self.try = nil
    return filter.CONTINUE
  end
  local now = clock()
  self.try = self.try or now
  local due = self.head
  if self.response then
    due = earliest(due, math.max(self.try, self.sent or now) + self.response)
  end
  if now >= due then
    txn:set_var("txn.over", true)
    return filter.ERROR
  end
  wake(due, now)
  return filter.WAIT
end

core.register_filter("times", Times, function(made, args) return made end)
