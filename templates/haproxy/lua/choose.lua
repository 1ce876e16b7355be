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
