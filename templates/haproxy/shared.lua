-- What all threads share. HAProxy lets one thread at a time in here, so an action without a pause is one step.

-- Token buckets by route and key: how many tokens there were, and when. A full bucket needs no keeping.
local buckets = {}

local function seconds()
  local now = core.now()
  return now.sec + now.usec / 1000000
end

local rates = {} -- text of a limit -> its numbers

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
