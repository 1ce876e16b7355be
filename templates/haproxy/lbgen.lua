-- What statements of haproxy.cfg cannot express. They call it only for requests that need it.

-- Removes the headers that a Connection header names (RFC 9110 7.6.1).
local kept = { host = true, connection = true, ["content-length"] = true, ["transfer-encoding"] = true }

core.register_action("drop_nominated", { "http-req" }, function(txn)
  local lines = txn.http:req_get_headers()["connection"]
  if lines == nil then return end
  local websocket = txn:get_var("txn.websocket")
  for i = 0, #lines do
    for token in lines[i]:gmatch("[^,%s]+") do
      local name = token:lower()
      if not kept[name] and not (websocket and name == "upgrade") then
        txn.http:req_del_header(name)
      end
    end
  end
end)

-- The same for a response: HAProxy forwards these headers to the client.
core.register_action("drop_nominated_response", { "http-res" }, function(txn)
  local lines = txn.http:res_get_headers()["connection"]
  if lines == nil then return end
  for i = 0, #lines do
    for token in lines[i]:gmatch("[^,%s]+") do
      local name = token:lower()
      if not kept[name] then txn.http:res_del_header(name) end
    end
  end
end)

local function lines_of(txn, name)
  local lines = txn.http:req_get_headers()[name]
  local found = {}
  if lines ~= nil then
    for i = 0, #lines do found[#found + 1] = lines[i] end
  end
  return found
end

-- Stores all lines of a header in a variable, as one list.
core.register_action("join", { "http-req" }, function(txn, name, variable)
  txn:set_var(variable, table.concat(lines_of(txn, name), ", "))
end, 2)

-- The same without the empty lines.
core.register_action("join_filled", { "http-req" }, function(txn, name, variable)
  local filled = {}
  for _, value in ipairs(lines_of(txn, name)) do
    if value ~= "" then filled[#filled + 1] = value end
  end
  txn:set_var(variable, table.concat(filled, ", "))
end, 2)

-- The value of the first cookie of that name, quotes dropped; nil when there is none.
local function cookie(lines, name)
  for _, line in ipairs(lines) do
    for pair in line:gmatch("[^;]+") do
      local found, value = pair:match("^[ \t]*([^=]*)=(.-)[ \t]*$")
      if found == name then return value:match('^"(.*)"$') or value end
    end
  end
  return nil
end

-- Stores "=" and a cookie's value in a variable.
core.register_action("cookie", { "http-req" }, function(txn, name, variable)
  local value = cookie(lines_of(txn, "cookie"), name)
  if value ~= nil then txn:set_var(variable, "=" .. value) end
end, 2)

local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The decoded value of the first parameter of that name; nil when there is none.
local function parameter(query, name)
  for pair in query:gmatch("[^&]+") do
    local found, value = pair:match("^([^=]*)=?(.*)$")
    if found == name then return decoded(value) end
  end
  return nil
end

-- "=" and a parameter's value, "" when there is none.
core.register_converters("query_value", function(query, name)
  local value = parameter(query, decoded(name))
  return value == nil and "" or "=" .. value
end)

-- A path with the hex digits of its escapes in upper case.
core.register_converters("upper_escapes", function(path)
  return (path:gsub("%%%x%x", string.upper))
end)

-- Rules with conditions that are too many for statements. Each listener has a file with its rules, which calls
-- lbgen_rules. A request is tried against the rules of its set only.
local listeners = {}

local function fits(test, value)
  if test.kind == "exact" then return value == test.value end
  if test.kind == "regex" then return test.compiled:exec(value) end
  return value ~= ""
end

-- The values of a header that a match compares: all lines as one list, and each element of that list.
local function header(txn, name)
  local lines = lines_of(txn, name)
  local seen = { filled = false, values = {}, has = {} }
  if #lines == 0 then return seen end
  local whole = table.concat(lines, ", ")
  seen.values[1] = whole
  for element in (whole .. ","):gmatch("([^,]*),") do
    seen.values[#seen.values + 1] = element:match("^[ \t]*(.-)[ \t]*$")
  end
  for _, value in ipairs(seen.values) do seen.has[value] = true end
  for _, value in ipairs(lines) do seen.filled = seen.filled or value ~= "" end
  return seen
end

local function listed(test, seen)
  if test.kind == "exact" then return seen.has[test.value] == true end
  if test.kind == "present" then return seen.filled end
  for _, value in ipairs(seen.values) do
    if fits(test, value) then return true end
  end
  return false
end

local function compiled(pattern)
  local fine, regex = Regex.new(pattern, true)
  if not fine then error("regex " .. pattern .. ": " .. tostring(regex)) end
  return regex
end

-- A long set is indexed by what most of its rules match: the first segment of a path regex, or a header's value. Other
-- rules are tried for every request of the set.
local long = 16

local function indexed(names, rules)
  local set = { names = names, always = {}, segments = {}, headers = {} }
  for place, name in ipairs(names) do
    local rule = rules[name]
    local segment = rule.path and rule.start:match("^/[^/]*/")
    local asked
    for _, test in ipairs(rule.headers or {}) do
      if test.kind == "exact" then asked = asked or test end
    end
    local bucket = set.always
    if #names > long and segment then
      set.segments[segment] = set.segments[segment] or {}
      bucket = set.segments[segment]
    elseif #names > long and asked then
      local values = set.headers[asked.name] or {}
      set.headers[asked.name] = values
      values[asked.value] = values[asked.value] or {}
      bucket = values[asked.value]
    end
    bucket[#bucket + 1] = place
  end
  return set
end

-- The positions in a set of the rules that can match a request, in order.
local function places(set, request)
  local found, sorted = set.always, true
  local function add(bucket)
    if bucket == nil then return end
    if found == set.always then found = { table.unpack(found) } end
    for _, place in ipairs(bucket) do found[#found + 1] = place end
    sorted = false
  end
  add(set.segments[request.path:match("^/[^/]*/") or ""])
  for name, values in pairs(set.headers) do
    for value in pairs(request.header(name).has) do add(values[value]) end
  end
  if not sorted then table.sort(found) end
  return found
end

function lbgen_rules(listener, rules, sets)
  for _, rule in pairs(rules) do
    if rule.path then rule.path = compiled("^(?:" .. rule.path .. ")$") end
    for _, tests in ipairs({ rule.headers or {}, rule.query or {}, rule.cookies or {} }) do
      for _, test in ipairs(tests) do
        if test.kind == "regex" then test.compiled = compiled("^(?:" .. test.value .. ")\\z") end
      end
    end
  end
  local ready = {}
  for name, names in pairs(sets) do ready[name] = indexed(names, rules) end
  listeners[listener] = { rules = rules, sets = ready }
end

local function takes(rule, request)
  if rule.methods and not rule.methods[request.method] then return false end
  if rule.path then
    if request.path:sub(1, #rule.start) ~= rule.start then return false end
    if not rule.path:exec(request.path) then return false end
  end
  for _, test in ipairs(rule.headers or {}) do
    if not listed(test, request.header(test.name)) then return false end
  end
  for _, test in ipairs(rule.query or {}) do
    local value = parameter(request.query, test.name)
    if value == nil or not fits(test, value) then return false end
  end
  for _, test in ipairs(rule.cookies or {}) do
    local value = cookie(request.cookies(), test.name)
    if value == nil or not fits(test, value) then return false end
  end
  return true
end

core.register_action("choose", { "http-req" }, function(txn, listener)
  local all = listeners[listener]
  local request = { method = txn.f:method(), path = txn.f:path(), query = txn.f:query() or "" }
  local headers, cookies = {}, nil
  function request.header(name)
    headers[name] = headers[name] or header(txn, name)
    return headers[name]
  end
  function request.cookies()
    cookies = cookies or lines_of(txn, "cookie")
    return cookies
  end
  local set = all.sets[txn:get_var("txn.set")]
  for _, place in ipairs(places(set, request)) do
    local rule = all.rules[set.names[place]]
    if takes(rule, request) then
      txn:set_var("txn.route", rule.route)
      return
    end
  end
end, 1)

-- The client's address: the peer's, or the one that trusted proxies forward. That is the rightmost address of the list
-- that is no trusted proxy; an element that is no address ends the search.
local networks = {} -- text of a list -> the networks

local function networks_of(text)
  if networks[text] == nil then
    local found = {}
    for each in text:gmatch("[^,]+") do found[#found + 1] = core.parse_addr(each) end
    networks[text] = found
  end
  return networks[text]
end

local function address(text)
  local plain = text:match("^%d+%.%d+%.%d+%.%d+$") or (text:find(":", 1, true) and text:match("^[%x:.]+$"))
  return plain and core.parse_addr(plain)
end

core.register_action("client", { "http-req" }, function(txn, trusted)
  local hops = {}
  for _, value in ipairs(lines_of(txn, "x-forwarded-for")) do
    for hop in value:gmatch("[^,]+") do hops[#hops + 1] = hop:match("^%s*(.-)%s*$") end
  end
  for i = #hops, 1, -1 do
    local found = address(hops[i])
    if not found then return end
    txn:set_var("txn.client", hops[i])
    local inside = false
    for _, network in ipairs(networks_of(trusted)) do inside = inside or core.match_addr(found, network) end
    if not inside then return end
  end
end, 1)

-- Counts the bytes of a body without Content-Length, and ends the request above the route's limit.
local Measured = { id = "body size", flags = filter.FLT_CFG_FL_HTX }
Measured.__index = Measured

function Measured:new()
  return setmetatable({ seen = 0 }, Measured)
end

function Measured:http_headers(txn, message)
  if message:is_resp() then return end
  self.most = txn:get_var("txn.max_body")
  if self.most and txn.http:req_get_headers()["content-length"] == nil then
    filter.register_data_filter(self, message.channel)
  end
end

function Measured:http_payload(txn, message)
  self.seen = self.seen + #(message:body() or "") -- nil where there is none: a GET
  if self.seen > self.most then
    txn:set_var("txn.too_large", true)
    error("body over max_body") -- HAProxy offers no other way to end a message here; its 400 becomes 413
  end
end

core.register_filter("measured", Measured, function(made, args) return made end)

-- The reason phrase for a request that HAProxy itself answers 503: txn.late is the connect time in microseconds.
core.register_fetches("failure", function(txn)
  local sent = txn:get_var("txn.sent")
  if txn.f:srv_id() == nil or sent == nil then return "Service Unavailable" end
  local passed = txn.f:date(0, "us") - sent -- the clock of `sent`; core.now lags behind it on a busy machine
  return passed >= txn:get_var("txn.late") and "Gateway Timeout" or "Bad Gateway"
end)

-- The reason phrase for a request that HAProxy itself answers 400 after it has chosen an endpoint.
core.register_fetches("bad_body", function(txn)
  if txn:get_var("txn.too_large") then return "Content Too Large" end
  if txn:get_var("txn.over") then return "Gateway Timeout" end
  if txn.req:may_recv() then return "Bad Request" end
  txn:set_var("txn.stopped", true) -- the client's time expired
  return "Request Timeout"
end)

-- The reason phrase for a request that HAProxy itself answers 408 while it waits for the body: the client's time
-- expired, or the request's, which is the last number of txn.times.
core.register_fetches("no_body", function(txn)
  local most = tonumber((txn:get_var("txn.times") or ""):match("(%d+)$"))
  if not most or most == 0 or txn.f:date(0, "ms") - txn:get_var("txn.begun_ms") < most then return "Request Timeout" end
  txn:set_var("txn.over", true)
  return "Gateway Timeout"
end)

-- CORS: what a route's policy grants to a request, stored in variables for the statements that answer.
local policies = {}

function lbgen_cors(listener, routes) policies[listener] = routes end

local simple_methods = { GET = true, HEAD = true, POST = true }
local simple_headers = { accept = true, ["accept-language"] = true, ["content-language"] = true, ["content-type"] = true }

local function admits(policy, origin)
  if policy.any or policy.exact[origin] then return true end
  for _, each in ipairs(policy.below) do
    local start, finish = each[1], each[2]
    local host = origin:sub(#start + 1, -#finish - 1)
    if #origin >= #start + #finish and origin:sub(1, #start) == start and origin:sub(-#finish) == finish
      and not host:find("[^A-Za-z0-9.-]") then
      return true
    end
  end
  return false
end

local function admits_headers(policy, lines)
  for _, value in ipairs(lines) do
    for name in value:gmatch("[^,]+") do
      name = name:match("^%s*(.-)%s*$"):lower()
      if name ~= "" and not policy.headers[name] and not simple_headers[name] then return false end
    end
  end
  return true
end

core.register_action("cors", { "http-req" }, function(txn, listener)
  local policy = policies[listener][txn:get_var("txn.route")]
  local constant = policy.any and not policy.credentials
  if not constant then txn:set_var("txn.cors_vary", true) end
  local origin = txn.f:req_fhdr("origin")
  if origin == nil then return end
  local allowed = admits(policy, origin)
  local method = txn.f:method() == "OPTIONS" and txn.f:req_fhdr("access-control-request-method")
  if method then
    txn:set_var("txn.preflight", true)
    allowed = allowed and (policy.methods[method] or simple_methods[method])
      and admits_headers(policy, lines_of(txn, "access-control-request-headers"))
  end
  if not allowed then return end
  txn:set_var("txn.cors_origin", constant and "*" or origin)
  if policy.credentials then txn:set_var("txn.cors_credentials", "true") end
  if method then
    txn:set_var("txn.cors_methods", policy.methods_shown)
    if policy.headers_shown then txn:set_var("txn.cors_headers", policy.headers_shown) end
    if policy.age then txn:set_var("txn.cors_age", policy.age) end
  elseif policy.expose then
    txn:set_var("txn.cors_expose", policy.expose)
  end
end, 1)

-- Compression: a mark replaces the media type of a response to compress, before HAProxy's filter reads it.
local packed = {} -- by text of a route's policy: least size, types

local function packed_by(told)
  if packed[told] == nil then
    local found = { types = {} }
    for word in told:gmatch("%S+") do
      if found.least then found.types[word] = true else found.least = tonumber(word) end
    end
    packed[told] = found
  end
  return packed[told]
end

local function fits_packing(policy, headers)
  local types, length = headers["content-type"], headers["content-length"]
  if types == nil or #types > 0 or headers["content-encoding"] ~= nil then return nil end
  local media = types[0]:match("^[ \t]*([^;]-)[ \t]*$") or types[0]:match("^[ \t]*([^;]-)[ \t]*;")
  if not policy.types[media:lower()] or (length and tonumber(length[0]) < policy.least) then return nil end
  local control = headers["cache-control"]
  for i = 0, control and #control or -1 do
    if control[i]:lower():find("no-transform", 1, true) then return nil end
  end
  return types[0]
end

core.register_action("pack", { "tcp-res" }, function(txn)
  if txn.res:input() == 0 and txn.res:may_recv() then return act.YIELD end
  if txn.res:input() > 0 and txn.f:status() == 200 then
    local kind = fits_packing(packed_by(txn:get_var("txn.packs")), txn.http:res_get_headers())
    if kind then
      txn:set_var("txn.type", kind)
      txn.http:res_set_header("content-type", "lbgen:pack")
    end
  end
  return act.CONTINUE
end)

-- A path in normal form: unreserved characters unescaped, slashes merged, dot segments resolved. A path that leads
-- above the root becomes one that later rules refuse.
core.register_converters("normal_path", function(path)
  local plain = path:gsub("%%(%x%x)", function(hex)
    local char = string.char(tonumber(hex, 16))
    if char:match("[%w%-._~]") then return char end
  end):gsub("//+", "/")
  local kept, open = {}, false
  for segment in plain:sub(2):gmatch("[^/]*") do
    open = segment == "" or segment == "." or segment == ".."
    if segment == ".." then
      if #kept == 0 then return "/../" end
      kept[#kept] = nil
    elseif not open then
      kept[#kept + 1] = segment
    end
  end
  local whole = "/" .. table.concat(kept, "/")
  return (open and #kept > 0) and whole .. "/" or whole
end)

-- Whether a path leads above the root once it is decoded, slashes included.
core.register_converters("above_root", function(path)
  local plain, depth = path:gsub("%%2[Ff]", "/"):gsub("%%2[Ee]", "."), 0
  for segment in plain:gmatch("/([^/]*)") do
    if segment == ".." then depth = depth - 1 elseif segment ~= "." then depth = depth + 1 end
    if depth < 0 then return true end
  end
  return false
end)

-- Mirrors: sends a copy of the request, as the endpoint gets it, to the frontend lbgen:mirror, which selects the pool.
-- Requests with a body over 64 KiB are not copied. The result of the copy never affects the request.
local Mirror = { id = "mirror", flags = filter.FLT_CFG_FL_HTX, most = 65536 }
Mirror.__index = Mirror

function Mirror:new() return setmetatable({ body = {}, size = 0 }, Mirror) end

local not_copied = { connection = true, ["content-length"] = true, ["transfer-encoding"] = true, expect = true }

function Mirror:head(pool, size)
  local lines = {
    self.line, "x-lbgen-mirror: " .. pool, "connection: close",
  }
  local sized = size > 0
  for name, values in pairs(self.headers) do
    if name == "content-length" or name == "transfer-encoding" then sized = true end
    for i = 0, not_copied[name] and -1 or #values do lines[#lines + 1] = name .. ": " .. values[i] end
  end
  if sized then lines[#lines + 1] = "content-length: " .. size end
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

function Mirror:send()
  local body = table.concat(self.body)
  for _, pool in ipairs(self.pools) do
    local copy = self:head(pool, #body) .. body
    core.register_task(function()
      local socket = core.tcp()
      if socket:connect("unix@lbgen-mirror.sock") then
        socket:send(copy)
        repeat until socket:receive(8192) == nil
      end
      socket:close()
    end)
  end
end

function Mirror:http_headers(txn, message)
  local told = not message:is_resp() and txn:get_var("txn.mirrors")
  if not told or txn:get_var("txn.websocket") then return end
  local pools = {}
  for pool, percent in told:gmatch("(%S+) (%S+)") do
    if txn.f:rand(1000000) < tonumber(percent) * 10000 then pools[#pools + 1] = pool end
  end
  if #pools == 0 then return end
  self.pools, self.headers = pools, txn.http:req_get_headers()
  self.line = txn.f:method() .. " " .. txn.f:url() .. " HTTP/1.1"
  local length = self.headers["content-length"] and tonumber(self.headers["content-length"][0])
  if length == 0 or (length == nil and self.headers["transfer-encoding"] == nil and message:eom()) then
    self:send()
  elseif (length or 0) <= Mirror.most then
    self.waits = true
    filter.register_data_filter(self, message.channel)
  end
end

function Mirror:http_payload(txn, message)
  if self.size > Mirror.most then return end
  local part = message:body() or ""
  self.size = self.size + #part
  if self.size <= Mirror.most then self.body[#self.body + 1] = part end
end

function Mirror:http_end(txn, message)
  if not message:is_resp() and self.waits and self.size <= Mirror.most then self:send() end
end

core.register_filter("mirror", Mirror, function(made, args) return made end)

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
