--- Rewrites the path into its normal form and looks up the route again.
--- Escapes that a path may not hold are refused first: the segment around them may be removed.
function envoy_on_request(handle)
  local headers = handle:headers()
  local path, query = string.match(headers:get(":path"), "^([^?]*)(.*)$")
  local refused = false
  path = string.gsub(path, "%%(%x?%x?)", function(hex)
    local char = #hex == 2 and string.char(tonumber(hex, 16)) or "/"
    if string.match(char, "[%c/\\]") then refused = true end
    if string.match(char, "[%w%-%._~]") then return char end
  end)
  if refused then return handle:respond({[":status"] = "400"}, "Bad Request\n") end
  path = string.gsub(path, "//+", "/")
  local found, dots = {}, false
  for segment in string.gmatch(path, "/([^/]*)") do
    dots = segment == "." or segment == ".."
    if not dots then
      table.insert(found, segment)
    elseif segment == ".." and table.remove(found) == nil then
      return handle:respond({[":status"] = "400"}, "Bad Request\n")
    end
  end
  if dots and #found > 0 then table.insert(found, "") end
  headers:replace(":path", "/" .. table.concat(found, "/") .. query)
  handle:clearRouteCache()
  handle:metadata()  -- looks up the route; Envoy needs X-Forwarded-Proto for that
end
