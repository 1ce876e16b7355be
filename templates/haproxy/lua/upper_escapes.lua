-- A path with the hex digits of its escapes in upper case.
core.register_converters("upper_escapes", function(path)
  return (path:gsub("%%%x%x", string.upper))
end)
