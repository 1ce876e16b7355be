local function lines_of(txn, name)
  local lines = txn.http:req_get_headers()[name]
  local found = {}
  if lines ~= nil then
    for i = 0, #lines do found[#found + 1] = lines[i] end
  end
  return found
end
