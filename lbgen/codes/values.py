"""LB1xx: the text of a topology and its values."""

TEXT = """
LB100 the file cannot be read as YAML
  cause: The text is not valid YAML: a bracket or quote is open, a tab indents, or the file is empty.
  example: listeners: { web: { port: 8080 }
  remedy: Correct the syntax at the line and column of the finding.
LB101 unknown key
  cause: A mapping has a key that this object does not have. The finding names a similar key, or all keys.
  example: listeners: { web: { prot: 8080 } }
  remedy: Write the key that the finding proposes, or drop it.
LB102 a key is written twice
  cause: One mapping has the same key twice, or two header names that differ in case only.
  example: listeners: { web: { port: 8080, port: 8081 } }
  remedy: Keep one of the two.
LB103 a required key is missing
  cause: An object lacks a key that has no default, such as the port of a listener or the certificates of a listener
    that terminates TLS.
  example: listeners: { web: {} }
  remedy: Add the key that the finding names.
LB104 a value is out of range or malformed
  cause: The value has the right type and is above or below its bounds, not one of the allowed words, or not of the
    form that the field needs.
  example: listeners: { web: { port: 70000 } }
  remedy: Write a value within the bounds or one of the words that the finding names.
LB105 a value has the wrong type
  cause: A number or a boolean is in quotes, text stands where a number is needed, or a single value where a list is.
  example: listeners: { web: { port: "8080" } }
  remedy: Write the type that the finding names; it shows the converted value where that is possible.
LB106 a scalar that YAML 1.1 and YAML 1.2 read differently
  cause: Two YAML parsers disagree on the value, such as `022` (octal or decimal) or `12:30` (base 60 or text).
  example: listeners: { web: { port: 022 } }
  remedy: Write the number without the leading zero, or quote the text.
LB107 a YAML feature that topologies do not have
  cause: The file uses merge keys (`<<`), custom tags or several documents.
  example: listeners: { web: { <<: { port: 8080 } } }
  remedy: Write the keys out. Routes share fields by `policies`, all routes or pools by `defaults`, topologies by a
    profile.
LB108 a file that is too large, too deep or has too many aliases
  cause: The file exceeds a limit of the reader, which protects against YAML bombs.
  example: $ lbgen check dump-of-a-whole-database.yaml
  remedy: Write the values instead of aliases, or split the topology.
LB109 the file is not UTF-8 text
  cause: The file is in another encoding, or it is binary.
  example: $ lbgen check topology.utf16.yaml
  remedy: Save the file as UTF-8 (`iconv -f UTF-16 -t UTF-8`).
LB110 the file does not exist or cannot be read
  cause: The topology or its profile is missing, is a folder, or the user has no permission to read it.
  example: $ lbgen check no-such-file.yaml
  remedy: Correct the path or its permissions.
LB111 unknown topology version
  cause: `version` is not 1.
  example: version: 2
  remedy: Write `version: 1`.
LB112 a malformed name
  cause: A name consists of lower-case letters and digits with `.`, `_` and `-` between them, and has at most 63
    characters.
  example: listeners: { Web_: { port: 8080 } }
  remedy: Rename the object.
LB113 a malformed duration
  cause: A duration is a number followed by a unit: `ms`, `s`, `m` or `h`.
  example: timeouts: { connect: soon }
  remedy: Write a number and a unit, such as `5s`.
LB114 a malformed size
  cause: A size is a number followed by a unit: `B`, `KiB`, `MiB` or `GiB`.
  example: max_body: 10 megabytes
  remedy: Write a number and a unit, such as `10MiB`.
LB115 a malformed address
  cause: The text is not an IP address or a host name with a port, or the address cannot be used there.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1" }] } }
  remedy: Write `HOST:PORT`, such as `10.0.0.1:8080`; an IPv6 address stands in brackets.
LB116 a malformed host name
  cause: The text is not a DNS name or an IP address: it is a URL, a regular expression, has a port, or its `*` is not
    the whole first label.
  example: routes: [{ name: app, hosts: ["https://shop.example"], forward: app }]
  remedy: Write the name alone, or `*.` and a name, which covers subdomains of any depth.
LB117 a malformed path
  cause: A path begins with `/`, has no query or fragment, and is written in its normalised form.
  example: routes: [{ name: app, match: [{ path: { prefix: api } }], forward: app }]
  remedy: Write the path as the finding proposes.
LB118 a regular expression that is not portable
  cause: The engines' regular expression libraries have RE2's syntax in common. Back-references and look-around are not
    part of it.
  example: routes: [{ name: app, match: [{ path: { regex: "/(?=a)" } }], forward: app }]
  remedy: Write the expression in RE2's syntax, or split it into several matches.
LB119 a malformed header name, or a header that may not be edited
  cause: The name has characters that HTTP does not allow, or the header belongs to the engine: those of one connection
    (`Connection`, `Transfer-Encoding`), of the message's length and of forwarding.
  example: response_headers: { set: { Connection: close } }
  remedy: Correct the name, or drop the edit.
LB120 control characters
  cause: A text holds a line break, a NUL or another control character, which could inject a header or a directive.
  example: response_headers: { set: { X-Note: "one\\ntwo" } }
  remedy: Remove the control characters.
LB121 a malformed method
  cause: A method has capital letters, `-` and `_` only, and is not `CONNECT` or `TRACE`, which are answered with 405.
  example: routes: [{ name: app, match: [{ methods: [get] }], forward: app }]
  remedy: Write the method in capital letters, such as `GET`.
LB122 a malformed network
  cause: The text is not a network in CIDR form, or has bits set beyond its prefix length.
  example: routes: [{ name: app, access: { allow: ["10.0.0.1/8"] }, forward: app }]
  remedy: Write the network's own address and its prefix length, such as `10.0.0.0/8`.
LB123 a status that cannot be used
  cause: The number is not an HTTP status, or not one that this field allows.
  example: routes: [{ name: gone, respond: { status: 99 } }]
  remedy: Write one of the statuses that the finding names.
LB124 a malformed rate
  cause: A rate is a whole number per second, minute or hour.
  example: routes: [{ name: app, rate_limit: { rate: fast }, forward: app }]
  remedy: Write a rate such as `10/s` or `100/m`.
LB125 exactly one of several keys is needed
  cause: The object has none, or more than one, of keys that exclude each other, such as `forward`, `redirect` and
    `respond` of a route.
  example: routes: [{ name: app }]
  remedy: Write exactly one of the keys that the finding names.
LB126 an empty list or mapping
  cause: A list or mapping has no entry, where an absent key would mean something else.
  example: routes: [{ name: app, match: [], forward: app }]
  remedy: Add an entry, or drop the key.
LB130 unknown profile
  cause: `profile` names neither a built-in profile nor a file.
  example: profile: prodution
  remedy: Write one of the profiles that the finding names, or the path of a file.
LB131 a profile that cannot be used
  cause: The file that `profile` names has a `profile` or an `include` key itself.
  example: profile: ./profiles/nested.yaml
  remedy: Copy what the other profile sets into this one.
LB132 a variable is not set
  cause: A value refers to `${NAME}`, and neither the environment nor the file of `--env-file` has that variable.
  example: listeners: { web: { port: "${NO_SUCH_VARIABLE}" } }
  remedy: Set the variable, or write a default, such as `${PORT:-8080}`; `$${` is the text `${`.
LB133 a malformed reference to a variable
  cause: A value holds `${` without a name and a closing brace.
  example: routes: [{ name: app, respond: { status: 200, body: "${}" } }]
  remedy: Write `${NAME}` or `${NAME:-default}`; for the text `${` write `$${`.
LB134 files that cannot be included
  cause: A file that `include` names holds something else than `pools` and `routes`; or a Python mapping, which has no
    folder that files could be in, has `include`.
  example: $ lbgen check shop.yaml    # include: [team.yaml], and team.yaml has listeners
  remedy: Move the key into the topology, or give the file with `-f`, which merges every key.
LB135 a setting that cannot be used
  cause: The path of `--set` names no field, or a line of the file of `--env-file` is not `NAME=VALUE`.
  example: $ lbgen check shop.yaml --set routes[9].forward=app
  remedy: Write the path as findings do, such as `listeners.web.port=8081` or `routes[api].forward=app`.
LB136 a file that cannot be formatted
  cause: `lbgen fmt` keeps every comment, and one inside braces or brackets has no place in the canonical form.
  example: $ lbgen fmt shop.yaml    # hosts: [a.example, # the old one
  remedy: Put the comment above, or write the collection as a block.
"""
