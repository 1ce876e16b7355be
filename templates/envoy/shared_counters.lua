-- What all workers of this Envoy count together: requests under way, and tokens of rates.
-- Each worker has Lua of its own, so the numbers are kept in C memory: search trees of the C library behind one lock.
local ffi = require("ffi")
ffi.cdef[[
  typedef struct { int64_t room[8]; } lbgen_lock;  /* a pthread_mutex_t; all zeros = unlocked */
  typedef struct { void *now, *before; double turned; } lbgen_buckets;
  typedef struct { lbgen_lock lock; void *places; lbgen_buckets rates[1]; } lbgen_shared;
  typedef struct { double tokens, at; int64_t under_way; } lbgen_numbers;
  typedef struct { long seconds, nanoseconds; } lbgen_time;
  typedef int (*lbgen_compare)(const char *, const char *);
  void *mmap(void *, size_t, int, int, int, long);
  int munmap(void *, size_t);
  int pthread_mutex_lock(void *);
  int pthread_mutex_unlock(void *);
  void *malloc(size_t);
  void free(void *);
  int strcmp(const char *, const char *);
  char **tsearch(const char *, void **, lbgen_compare);
  char **tfind(const char *, void **, lbgen_compare);
  char **tdelete(const char *, void **, lbgen_compare);
  void tdestroy(void *, void (*)(void *));
  int clock_gettime(int, lbgen_time *);
]]
local C = ffi.C

-- Memory at an address of its own: whoever comes first makes it, zeroed, and everybody else finds it taken.
local function shared(rates)
  local size = ffi.sizeof("lbgen_shared") + rates * ffi.sizeof("lbgen_buckets")
  local place = ffi.cast("void *", 0x3c62670000ULL)
  local read_write, private_anonymous_here_or_nowhere = 3, 0x2 + 0x20 + 0x100000
  local got = C.mmap(place, size, read_write, private_anonymous_here_or_nowhere, -1, 0)
  local failed = ffi.cast("void *", -1)
  local taken = 17
  if got == failed and ffi.errno() ~= taken then error("no memory for counters: errno " .. ffi.errno()) end
  if got ~= failed and got ~= place then C.munmap(got, size) end  -- an old kernel treats the address as a hint
  return ffi.cast("lbgen_shared *", place)
end

local function padded(key) return math.ceil((#key + 1) / 8) * 8 end

local function numbers(found, key) return ffi.cast("lbgen_numbers *", found + padded(key)) end

-- Nothing below may raise an error between lock and unlock, so every string is built before.
local function find(root, key)
  local node = C.tfind(key, root, C.strcmp)
  if node ~= nil then return numbers(node[0], key) end
end

local function make(root, key)
  local block = ffi.cast("char *", C.malloc(padded(key) + ffi.sizeof("lbgen_numbers")))
  ffi.fill(block, padded(key) + ffi.sizeof("lbgen_numbers"))
  ffi.copy(block, key)
  C.tsearch(block, root, C.strcmp)
  return numbers(block, key)
end

local function drop(root, key)
  local block = C.tfind(key, root, C.strcmp)[0]
  C.tdelete(key, root, C.strcmp)
  C.free(block)
end

local function root_of(state, field)
  return ffi.cast("void **", ffi.cast("char *", state) + ffi.offsetof("lbgen_shared", field))
end

-- Counts one more request for `key`; false when `max` are under way.
local function enter(state, key, max)
  local root = root_of(state, "places")
  C.pthread_mutex_lock(state.lock)
  local found = find(root, key) or make(root, key)
  local free = found.under_way < max
  if free then found.under_way = found.under_way + 1 end
  C.pthread_mutex_unlock(state.lock)
  return free
end

-- Counts one request less for `key`.
local function leave(state, key)
  local root = root_of(state, "places")
  C.pthread_mutex_lock(state.lock)
  local found = find(root, key)
  if found ~= nil then
    found.under_way = found.under_way - 1
    if found.under_way <= 0 then drop(root, key) end
  end
  C.pthread_mutex_unlock(state.lock)
end

local clock = ffi.new("lbgen_time")
local monotonic = 1

local function seconds()
  C.clock_gettime(monotonic, clock)
  return tonumber(clock.seconds) + tonumber(clock.nanoseconds) / 1e9
end

-- Takes a token from the bucket `key`, which holds `burst` tokens and gains `rate` per second. A bucket that is unused
-- for as long as it takes to fill is full and need not be stored: buckets live in two trees, and each turn of that
-- length drops the older tree.
local function take(state, index, key, rate, burst)
  local now = seconds()
  local buckets = state.rates + index
  local roots = ffi.cast("void **", buckets)
  C.pthread_mutex_lock(state.lock)
  if now - buckets.turned > burst / rate then
    C.tdestroy(buckets.before, C.free)
    buckets.before = buckets.now
    buckets.now = nil
    buckets.turned = now
  end
  local found = find(roots, key)
  if found == nil then
    found = make(roots, key)
    found.tokens, found.at = burst, now
    local old = find(roots + 1, key)
    if old ~= nil then
      found.tokens, found.at = old.tokens, old.at
      drop(roots + 1, key)
    end
  end
  found.tokens = math.min(burst, found.tokens + (now - found.at) * rate)
  found.at = now
  local enough = found.tokens >= 1
  if enough then found.tokens = found.tokens - 1 end
  C.pthread_mutex_unlock(state.lock)
  return enough
end
