local function decoded(text)
  return (text:gsub("%%(%x%x)", function(hex) return string.char(tonumber(hex, 16)) end))
end

-- The decoded value of the first parameter of that name; nil when there is none.
local function parameter(query, name)
  for pair in query:gmatch("[^&]+") do
    local found, value = pair:match("^([^=]*)=?(.*)$")
    if found == name then return decoded(value) end
  end
  return nil
end
