-- "=" and a parameter's value, "" when there is none.
core.register_converters("query_value", function(query, name)
  local value = parameter(query, decoded(name))
  return value == nil and "" or "=" .. value
end)
