-- What statements of haproxy.cfg cannot express.

-- Asks a service whether a request may pass, by way of a frontend of this process that leads to the service's backend.
-- txn.admitted is set for a 2xx, whose `kept` fields the request gets; 401, 403 and redirects are the client's answer.
-- After anything else, an error of Lua included, the rule behind this one refuses the request.
local MOST = 8192 -- bytes of a body that is passed on, as an answer must fit into one buffer
local REDIRECTS = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

local function lines_of(fields, name)
  local lines = fields[name] or {} -- from 0 on
  return table.move(lines, 0, #lines, 1, {})
end

core.register_action("auth_request", { "http-req" }, function(txn, address, backend, host, target, sent, kept, milliseconds)
  local fields, asked = txn.http:req_get_headers(), { ["host"] = { host } }
  asked["x-forwarded-method"], asked["x-forwarded-uri"] = { txn.f:method() }, { txn.f:pathq() }
  asked["x-forwarded-for"], asked["x-forwarded-host"] = { txn.f:src() }, { txn.f:req_fhdr("host") }
  asked["x-forwarded-proto"] = { txn.f:ssl_fc() and "https" or "http" }
  for name in (sent .. ",x-forwarded-for,x-forwarded-proto,x-forwarded-host"):gmatch("[^,]+") do
    if fields[name] then asked[name] = lines_of(fields, name) end
  end
  asked["x-lbgen-backend"] = { backend }
  local url, timeout = "http://127.0.0.1" .. target, tonumber(milliseconds)
  local answer = core.httpclient():get { url = url, dst = address, headers = asked, timeout = timeout }
  local status, login, headers = answer.status or 0, txn:get_var("txn.login"), answer.headers
  if status >= 200 and status < 300 then
    for name in kept:gmatch("[^,]+") do
      local lines = lines_of(headers, name)
      for _, line in ipairs(lines) do txn.http:req_add_header(name, line) end
      -- What has no room in the buffer is not added, without an error.
      if #lines_of(txn.http:req_get_headers(), name) < #lines then return end
    end
    txn:set_var("txn.admitted", true)
  elseif status == 401 and login then
    txn:done(txn:reply { status = 302, headers = { location = { login } } })
  elseif status == 401 or status == 403 or REDIRECTS[status] then
    headers["connection"], headers["keep-alive"], headers["transfer-encoding"], headers["content-length"] = nil
    local all, body = {}, #(answer.body or "") <= MOST and answer.body or nil
    for name in pairs(headers) do all[name] = lines_of(headers, name) end
    txn:done(txn:reply { status = status, headers = all, body = body })
  end
end, 7)
