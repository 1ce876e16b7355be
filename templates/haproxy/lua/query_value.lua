-- "=" and a parameter's value, "" when there is none. A value with a NUL, where HAProxy's comparison of texts would end,
-- has another one before it.
core.register_converters("query_value", function(query, name)
  local value = parameter(query, decoded(name))
  if value == nil then return "" end
  return (value:find("\0", 1, true) and "\0=" or "=") .. value
end)
