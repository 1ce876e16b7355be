--- Picks an endpoint with a free slot, or waits for one. Appended to shared_counters.lua.
--- @pools@: `["pool"] = {max, size, timeout, balance, queue, endpoints}`; @rates@: as in admission.lua.

local state = shared(@rates@)
local pools = {
@pools@}

-- Gives a request to a pool with max_per_endpoint its endpoint; the request holds a slot there until it ends.
local header, held = "x-lbgen-endpoint", "lbgen.counters"
local avoided_for = 1  -- seconds for which an endpoint that Envoy did not use is skipped
math.randomseed(seconds() * 1e6 % 2147483647)

-- A count of one stands for the entry itself, which keeps it in the tree.
for _, pool in pairs(pools) do
  local root = root_of(state, "places")
  C.pthread_mutex_lock(state.lock)
  for _, endpoint in ipairs(pool.endpoints) do
    endpoint.numbers = find(root, endpoint.key)
    if endpoint.numbers == nil then
      endpoint.numbers = make(root, endpoint.key)
      endpoint.numbers.under_way = 1
    end
  end
  C.pthread_mutex_unlock(state.lock)
end

-- Returns an endpoint with a free slot, or nil and whether one may become free. Among all that are free
-- (least_connections: the least busy) it takes the next by smooth weighted round robin, or any by weight (random).
local function pick(pool)
  local now, least, best, weights, full = seconds(), math.huge, nil, 0, false
  C.pthread_mutex_lock(state.lock)
  for _, endpoint in ipairs(pool.endpoints) do
    local numbers = endpoint.numbers
    endpoint.load = math.huge
    if numbers.at <= now then
      local under_way = tonumber(numbers.under_way) - 1
      if under_way >= pool.max then
        full = true
      else
        endpoint.load = pool.balance == "least_connections" and (under_way + 1) / endpoint.weight or 0
        least = math.min(least, endpoint.load)
      end
    end
  end
  for _, endpoint in ipairs(pool.endpoints) do
    if endpoint.load == least and least < math.huge then
      local numbers = endpoint.numbers
      weights = weights + endpoint.weight
      if pool.balance == "random" then
        if math.random() * weights < endpoint.weight then best = endpoint end
      else
        numbers.tokens = numbers.tokens + endpoint.weight
        if best == nil or numbers.tokens > best.numbers.tokens then best = endpoint end
      end
    end
  end
  if best ~= nil then
    if pool.balance ~= "random" then best.numbers.tokens = best.numbers.tokens - weights end
    best.numbers.under_way = best.numbers.under_way + 1
  end
  C.pthread_mutex_unlock(state.lock)
  return best, full
end

local function hold(handle, what, key) handle:streamInfo():dynamicMetadata():set(held, what, key) end

local function wait(handle)
  handle:httpCall("lbgen-wait", {[":method"] = "GET", [":path"] = "/", [":authority"] = "wait"}, "", 1000)
end

-- Whether requests wait in the queue. They poll every few milliseconds, so a new request would often overtake them.
local function has_waiting_requests(pool)
  local root = root_of(state, "places")
  C.pthread_mutex_lock(state.lock)
  local found = find(root, pool.queue) ~= nil
  C.pthread_mutex_unlock(state.lock)
  return found
end

local function answer(handle) handle:respond({[":status"] = "503"}, "Service Unavailable\n") end

function envoy_on_request(handle)
  local pool = pools[handle:filterContext():get("pool") or ""]
  if pool == nil then return end
  local begun = seconds()
  local best, full = nil, pool.size > 0 and has_waiting_requests(pool)
  if not full then best, full = pick(pool) end
  if best == nil and full then
    if pool.size == 0 or not enter(state, pool.queue, pool.size) then return answer(handle) end
    hold(handle, "queue", pool.queue)
    repeat
      wait(handle)
      best, full = pick(pool)
    until best ~= nil or not full or seconds() - begun > pool.timeout
    leave(state, pool.queue)
    hold(handle, "queue", "")
    if best == nil and full then return answer(handle) end
  end
  handle:headers():remove(header)
  if best ~= nil then
    hold(handle, "endpoint", best.key)
    handle:headers():add(header, best.address)
  end
end

-- Envoy names the endpoint it used if that is another one: the endpoint asked for is out, or failed and was retried.
function envoy_on_response(handle)
  local pool = pools[handle:filterContext():get("pool") or ""]
  local taken = handle:headers():get(header)
  handle:headers():remove(header)
  if pool == nil or taken == nil then return end
  local known = handle:streamInfo():dynamicMetadata():get(held)
  local now, here = seconds(), nil
  C.pthread_mutex_lock(state.lock)
  for _, endpoint in ipairs(pool.endpoints) do
    if known ~= nil and endpoint.key == known.endpoint then
      endpoint.numbers.at = now + avoided_for
      endpoint.numbers.under_way = endpoint.numbers.under_way - 1
    end
    if endpoint.address == taken then here = endpoint end
  end
  if here ~= nil then here.numbers.under_way = here.numbers.under_way + 1 end
  C.pthread_mutex_unlock(state.lock)
  hold(handle, "endpoint", here and here.key or "")
end
