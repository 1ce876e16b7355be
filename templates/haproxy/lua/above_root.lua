-- Whether a path leads above the root once it is decoded, slashes included.
core.register_converters("above_root", function(path)
  local plain, depth = path:gsub("%%2[Ff]", "/"):gsub("%%2[Ee]", "."), 0
  for segment in plain:gmatch("/([^/]*)") do
    if segment == ".." then depth = depth - 1 elseif segment ~= "." then depth = depth + 1 end
    if depth < 0 then return true end
  end
  return false
end)
