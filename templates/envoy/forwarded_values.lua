--- Removes empty values of the headers that proxies set, and joins the addresses of X-Forwarded-For by ", ".
function envoy_on_request(handle)
  local headers = handle:headers()
  for _, name in ipairs({"x-forwarded-for", "x-forwarded-host", "x-forwarded-port", "x-request-id"}) do
    local value = headers:get(name)
    if value == "" then headers:remove(name) end
  end
  local list = headers:get("x-forwarded-for")
  if list ~= nil then
    local found = {}
    for address in string.gmatch(list, "[^,]+") do
      address = string.match(address, "^%s*(.-)%s*$")
      if address ~= "" then table.insert(found, address) end
    end
    if #found > 0 then
      headers:replace("x-forwarded-for", table.concat(found, ", "))
    else
      headers:remove("x-forwarded-for")
    end
  end
end
