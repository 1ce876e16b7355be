--- Removes empty values of the headers that proxies set, and joins the addresses of X-Forwarded-For by ", ".
function envoy_on_request(handle)
  local headers = handle:headers()
  for _, name in ipairs({"x-forwarded-host", "x-forwarded-port", "x-request-id"}) do
    if headers:get(name) == "" then headers:remove(name) end
  end
  local found = {}
  for address in string.gmatch(headers:get("x-forwarded-for") or "", "[^,%s][^,]*") do
    table.insert(found, (string.gsub(address, "%s+$", "")))
  end
  headers:remove("x-forwarded-for")
  if #found > 0 then headers:add("x-forwarded-for", table.concat(found, ", ")) end
end
