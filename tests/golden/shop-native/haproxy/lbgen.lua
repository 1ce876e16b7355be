-- What statements of haproxy.cfg cannot express.

local function lines_of(txn, name)
  local lines = txn.http:req_get_headers()[name]
  local found = {}
  if lines ~= nil then
    for i = 0, #lines do found[#found + 1] = lines[i] end
  end
  return found
end

-- Joins the lines of a header that are not empty into one.
core.register_action("join_filled", { "http-req" }, function(txn, name)
  local filled = {}
  for _, value in ipairs(lines_of(txn, name)) do
    if value ~= "" then filled[#filled + 1] = value end
  end
  txn.http:req_set_header(name, table.concat(filled, ", "))
end, 1)
