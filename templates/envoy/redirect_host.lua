--- Sets the host that a redirect shows: in lower case, without port and trailing dot. @own@ is the listener's address.
function envoy_on_request(handle)
  if not handle:filterContext():get("redirect") then return end
  local headers = handle:headers()
  local host = string.lower(headers:get(":authority"))
  if host == "@no_host@" then
    host = "@own@"
  elseif string.sub(host, 1, 1) == "[" then
    host = string.match(host, "^[^%]]*") .. "]"
  else
    host = string.gsub(string.match(host, "^[^:]*"), "%.$", "")
  end
  headers:replace(":authority", host)
end
