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
