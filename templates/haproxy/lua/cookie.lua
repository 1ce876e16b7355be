-- Stores "=" and a cookie's value in a variable.
core.register_action("cookie", { "http-req" }, function(txn, name, variable)
  local value = cookie(lines_of(txn, "cookie"), name)
  if value ~= nil then txn:set_var(variable, "=" .. value) end
end, 2)
