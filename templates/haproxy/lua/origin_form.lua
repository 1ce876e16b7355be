-- Turns the absolute form of a target into the origin form. txn.other_host: it names another host than Host does.
core.register_action("origin_form", { "http-req" }, function(txn)
  local authority = txn.f:url():match("^[^/]*//([^/?]*)")
  if authority == nil or authority:lower() ~= (txn.f:req_fhdr("host") or ""):lower() then
    txn:set_var("txn.other_host", true)
    return
  end
  local target = txn.f:pathq()
  txn.http:req_set_uri((target == nil or target == "") and "/" or target)
end)
