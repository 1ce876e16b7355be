-- What the statements of haproxy.cfg cannot say. Called for the few requests that need it, never for all.

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

-- The same for a response: HAProxy would pass the headers on to the client.
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

-- Puts all lines of a header into a variable as one list.
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

-- Puts "=" and the value of the first cookie of that name into a variable, quotes dropped.
core.register_action("cookie", { "http-req" }, function(txn, name, variable)
  for _, line in ipairs(lines_of(txn, "cookie")) do
    for pair in line:gmatch("[^;]+") do
      local found, value = pair:match("^[ \t]*([^=]*)=(.-)[ \t]*$")
      if found == name then
        txn:set_var(variable, "=" .. (value:match('^"(.*)"$') or value))
        return
      end
    end
  end
end, 2)

local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- "=" and the decoded value of the first parameter of that name in a query, "" when there is none.
core.register_converters("query_value", function(query, name)
  name = decoded(name)
  for pair in query:gmatch("[^&]+") do
    local found, value = pair:match("^([^=]*)=?(.*)$")
    if found == name then return "=" .. decoded(value) end
  end
  return ""
end)

-- A path with the hex digits of its escapes in upper case.
core.register_converters("upper_escapes", function(path)
  return (path:gsub("%%%x%x", string.upper))
end)
