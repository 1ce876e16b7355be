--- Refuses a path whose `..` segments lead above the root, in clear or percent-encoded form.
function envoy_on_request(handle)
  local path = string.match(handle:headers():get(":path"), "^[^?]*")
  path = string.gsub(string.gsub(path, "%%2[Ff]", "/"), "%%2[Ee]", ".")
  local depth = 0
  for segment in string.gmatch(path, "/([^/]*)") do
    if segment == ".." then depth = depth - 1 elseif segment ~= "." then depth = depth + 1 end
    if depth < 0 then return handle:respond({[":status"] = "400"}, "Bad Request\n") end
  end
end
