--- Marks requests without a body and looks up the route again, which then finds one with a clock of its own.
--- A GET or HEAD without a length has no body, or one that `body()` reads within the client's time for a body.
--- Upgrades have their own route, and their bytes would look like a body without end.
--- Envoy finds no route for a request without X-Forwarded-Proto, which may be removed by then; metadata() looks it up.
function envoy_on_request(handle)
  if not handle:filterContext():get("marks") then return end
  local headers = handle:headers()
  local method, length = headers:get(":method"), headers:get("content-length")
  if method ~= "GET" and method ~= "HEAD" or headers:get("upgrade") ~= nil then return end
  if headers:get("@coding@") ~= nil or (length ~= nil and length ~= "0") then return end
  handle:body()
  headers:replace("@coding@", "@mark@")
  local proto = headers:get("@proto@")
  headers:replace("@proto@", proto or "http")
  handle:clearRouteCache()
  handle:metadata()
  if proto == nil then headers:remove("@proto@") end
end
