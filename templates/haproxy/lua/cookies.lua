-- The value of the first cookie of that name, quotes dropped; nil when there is none.
local function cookie(lines, name)
  for _, line in ipairs(lines) do
    for pair in line:gmatch("[^;]+") do
      local found, value = pair:match("^[ \t]*([^=]*)=(.-)[ \t]*$")
      if found == name then return value:match('^"(.*)"$') or value end
    end
  end
  return nil
end
