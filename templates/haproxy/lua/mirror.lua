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
  self.line = txn.f:method() .. " " .. (txn.f:pathq() or txn.f:url()) .. " HTTP/1.1"
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
