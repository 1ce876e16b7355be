-- Questions of ext_authz to a service: by GET, to its own host, without what Envoy adds. ext_authz takes 200 alone for
-- a yes; a 401 becomes a redirect where x-lbgen-login says where to.
function envoy_on_request(handle)
  local headers = handle:headers()
  headers:replace(":method", "GET")
  headers:replace(":authority", headers:get("x-lbgen-host"))
  handle:streamInfo():dynamicMetadata():set("lbgen", "login", headers:get("x-lbgen-login") or "")
end

function envoy_on_response(handle)
  local headers = handle:headers()
  local status, login = headers:get(":status"), handle:streamInfo():dynamicMetadata():get("lbgen")["login"]
  if status:match("^2") then
    headers:replace(":status", "200")
  elseif status == "401" and login ~= "" then
    headers:replace(":status", "302")
    headers:replace("location", login)
  end
end
