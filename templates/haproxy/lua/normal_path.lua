-- A path in normal form: unreserved characters unescaped, slashes merged, dot segments resolved. A path that leads
-- above the root becomes one that later rules refuse.
core.register_converters("normal_path", function(path)
  local plain = path:gsub("%%(%x%x)", function(hex)
    local char = string.char(tonumber(hex, 16))
    if char:match("[%w%-._~]") then return char end
  end):gsub("//+", "/")
  local kept, open = {}, false
  for segment in plain:sub(2):gmatch("[^/]*") do
    open = segment == "" or segment == "." or segment == ".."
    if segment == ".." then
      if #kept == 0 then return "/../" end
      kept[#kept] = nil
    elseif not open then
      kept[#kept + 1] = segment
    end
  end
  local whole = "/" .. table.concat(kept, "/")
  return (open and #kept > 0) and whole .. "/" or whole
end)
