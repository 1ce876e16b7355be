-- State that all threads share. HAProxy runs it on one thread at a time, so an action that does not yield is atomic.

-- Token buckets by route and key: the number of tokens, and when it was counted. Full buckets are dropped.
local buckets = {}

local function seconds()
  local now = core.now()
  return now.sec + now.usec / 1000000
end

local rates = {} -- by text of a limit: its numbers

local function rate_of(text)
  if rates[text] == nil then
    local amount, period, burst = text:match("^(%d+)/(%d+)/(%d+)$")
    rates[text] = { per_second = tonumber(amount) / tonumber(period), burst = tonumber(burst) }
  end
  return rates[text]
end

local function filled(bucket, rate, now)
  local passed = math.max(now - bucket.at, 0)
  return math.min(bucket.tokens + passed * rate.per_second, rate.burst)
end

core.register_action("take_token", { "http-req" }, function(txn)
  local name = txn:get_var("txn.bucket")
  local rate = rate_of(txn:get_var("txn.rate"))
  local now = seconds()
  local bucket = buckets[name]
  if bucket == nil then
    bucket = { tokens = rate.burst, at = now, rate = rate }
    buckets[name] = bucket
  end
  bucket.tokens = filled(bucket, rate, now)
  bucket.at = now
  if bucket.tokens >= 1 then
    bucket.tokens = bucket.tokens - 1
  else
    txn:set_var("txn.spent", true)
  end
end)

core.register_task(function()
  while true do
    core.sleep(10)
    local now = seconds()
    for name, bucket in pairs(buckets) do
      if filled(bucket, bucket.rate, now) >= bucket.rate.burst then buckets[name] = nil end
    end
  end
end)

-- Consecutive failures by pool and endpoint, and the ejected endpoints. proc.sick is the number of endpoints with
-- failures; while it is 0, statements do not report good responses.
local failures, out, sick = {}, {}, 0

-- The servers of this endpoint, in every backend of the pool.
local function servers_of(pool, endpoint)
  local found = {}
  for name, backend in pairs(core.backends) do
    if name == pool or name:match("^(.*):%d+$") == pool then
      for each, server in pairs(backend.servers) do
        if each == endpoint or each == endpoint .. ":again" then found[#found + 1] = server end
      end
    end
  end
  return found
end

local function eject(key, pool, endpoint, milliseconds)
  out[key] = { servers = servers_of(pool, endpoint), back = seconds() + milliseconds / 1000 }
  for _, server in ipairs(out[key].servers) do server:set_maint() end
end

-- One permanent task restores them, so that no ejection depends on a task of its own.
core.register_task(function()
  while true do
    core.msleep(50)
    local now = seconds()
    for key, ejected in pairs(out) do
      if now >= ejected.back then
        for _, server in ipairs(ejected.servers) do server:set_ready() end
        out[key] = nil
      end
    end
  end
end)

core.register_fetches("judged", function(txn, most, milliseconds)
  local server = txn.f:srv_name()
  if server == nil or server == "" then return 0 end
  local backend = txn.f:be_name()
  local pool, endpoint = backend:match("^(.*):%d+$") or backend, server:match("^[^:]*")
  local key = pool .. "/" .. endpoint
  if out[key] then return 0 end
  local failed = failures[key]
  if txn.f:status() < 500 then
    if failed then sick = sick - 1 end
    failures[key] = nil
  else
    if not failed then sick = sick + 1 end
    failures[key] = (failed or 0) + 1
    if failures[key] >= tonumber(most) then
      failures[key], sick = nil, sick - 1
      eject(key, pool, endpoint, tonumber(milliseconds))
    end
  end
  txn:set_var("proc.sick", sick)
  return failures[key] or 0
end)
