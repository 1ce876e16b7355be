-- Stores all lines of a header in a variable, as one list.
core.register_action("join", { "http-req" }, function(txn, name, variable)
  txn:set_var(variable, table.concat(lines_of(txn, name), ", "))
end, 2)
