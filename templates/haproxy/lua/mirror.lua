-- Sends a copy of a request to a frontend of this process, in a task that the request does not wait for. Not copied are
-- WebSockets, requests whose body is not all in the buffer, and what comes while MOST copies wait for their answers.
local MOST, under_way = 500, 0 -- in each thread
local WITHOUT_BODY = { GET = 0, HEAD = 0, DELETE = 0, OPTIONS = 0 }

local function send(address, copy)
  local socket = core.tcp()
  socket:settimeout(10)
  if socket:connect(address) and socket:send(copy) then socket:receive("*l") end -- until the endpoint answers
  socket:close()
  under_way = under_way - 1
end

core.register_action("mirror", { "http-req" }, function(txn, address)
  local fields, body = txn.http:req_get_headers(), txn.f:req_body() or ""
  local length = fields["content-length"] and tonumber(fields["content-length"][0]) or WITHOUT_BODY[txn.f:method()]
  if #body ~= length or fields["upgrade"] or under_way >= MOST then return end
  local lines = { txn.f:method() .. " " .. txn.f:pathq() .. " HTTP/1.1", "connection: close" }
  fields["connection"], fields["transfer-encoding"], fields["expect"] = nil, nil, nil
  for name, values in pairs(fields) do
    for i = 0, #values do table.insert(lines, name .. ": " .. values[i]) end
  end
  under_way = under_way + 1
  core.register_task(function() send(address, table.concat(lines, "\r\n") .. "\r\n\r\n" .. body) end)
end, 1)
