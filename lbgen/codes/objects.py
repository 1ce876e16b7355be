"""LB20x to LB25x: how the objects of a topology fit together."""

TEXT = """
LB201 unknown reference
  cause: A route, pool, listener or `accept` entry names a listener, pool, tier or feature that does not exist.
  example: routes: [{ name: app, forward: ap }]
  remedy: Correct the name as the finding proposes, or add the object.
LB202 two routes of one name
  cause: Names of routes are unique within a topology, as logs and statistics identify routes by name.
  example: routes: [{ name: app, forward: app }, { name: app, hosts: [shop.example], forward: app }]
  remedy: Rename one of them.
LB203 an unreachable route
  cause: Every request that the route matches is taken by a route that is tried before it.
  example: routes:
      - { name: all, priority: 1, forward: app }
      - { name: api, match: [{ path: { prefix: /api } }], forward: app }
  remedy: Narrow the other route, drop this one, or raise its priority.
LB204 two routes with the same hosts and match
  cause: Both routes match the same requests at the same priority, so only the first can serve.
  example: routes: [{ name: one, forward: app }, { name: two, forward: app }]
  remedy: Change the match of one, or merge them into one route with weighted targets.
LB205 a listener without routes
  cause: No route is attached to the listener. An L4 listener serves only routes that name it.
  example: listeners: { web: { port: 8080 }, tcp: { port: 5432, mode: l4 } }
  remedy: Name the listener in `listeners` of a route, or drop it.
LB206 an L7 field where only bytes are forwarded
  cause: A field about requests or responses is set on an L4 listener, its routes or their pools.
  example: listeners: { web: { port: 8080, mode: l4, http2: true } }
  remedy: Drop the field, or write `mode: l7` on the listener.
LB207 an L4 field where requests are read, or both on one route
  cause: `sources`, `protocol` or TLS passthrough is used with an L7 listener, or a route is on listeners of both
    modes.
  example: listeners: { web: { port: 8080, protocol: udp } }
  remedy: Write `mode: l4` on the listener, use the L7 field that the finding names, or split the route.
LB208 two listeners, or a listener and the metrics, on one address and port
  cause: Both bind the same port on overlapping addresses; `::` covers IPv4 too.
  example: listeners: { web: { port: 8080 }, other: { port: 8080 } }
  remedy: Give one of them another port or address.
LB209 an L4 route that names no listener
  cause: Without `listeners` a route is attached to the L7 listeners; an L4 route must name its own.
  example: listeners: { web: { port: 8080, mode: l4 } }
  remedy: Write `listeners: [NAME]` on the route.
LB210 all weights are zero
  cause: Every target of a route, or every endpoint of a pool, has weight 0, so nothing can serve.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080", weight: 0 }] } }
  remedy: Give at least one of them a weight of 1 or more.
LB211 a file that does not exist or cannot be read
  cause: A certificate, key or CA file of the topology is missing, a folder, or not readable. Relative paths start at
    the folder of the topology.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8443" }], tls: { ca: no-such-ca.pem } } }
  remedy: Correct the path, or make the file readable for the user who runs lbgen.
LB212 a redirect to itself
  cause: The redirect changes nothing, so that the client is sent back to the same route.
  example: routes: [{ name: loop, redirect: { status: 301, path: / } }]
  remedy: Change scheme, host, port or path, or add a route for the target.
LB213 a prefix replacement without a prefix
  cause: `rewrite` or `redirect` replaces the prefix of a path that is matched by a regular expression.
  example: routes: [{ name: app, match: [{ path: { regex: "/a.*" } }], rewrite: { prefix: / }, forward: app }]
  remedy: Match by prefix, or replace the whole path.
LB214 a body where the status allows none
  cause: Responses of status 204 and 304 have no body.
  example: routes: [{ name: empty, respond: { status: 204, body: done } }]
  remedy: Drop the body, or write status 200.
LB215 two endpoints with one address
  cause: An address appears twice in a pool.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.1:8080" }] } }
  remedy: Write it once; raise its weight to send it more traffic.
LB216 health settings that contradict each other
  cause: A check has no time limit or one above its interval, a connect check expects a status, a UDP pool has no port
    to check, or all endpoints of a pool are backups.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080", backup: true }] } }
  remedy: Change the setting as the finding proposes.
LB217 a pool that L4 and L7 routes share
  cause: Connections to endpoints are reused for requests on L7 and belong to one client on L4.
  example: listeners: { web: { port: 8080 }, tcp: { port: 9000, mode: l4 } }
    routes: [{ name: app, forward: app }, { name: raw, listeners: [tcp], forward: app }]
  remedy: Write one pool for each; they may have the same endpoints.
LB218 no listeners or no routes
  cause: A topology needs at least one listener and one route.
  example: routes: []
  remedy: Add what is missing.
LB219 a field about endpoints on a route that has none
  cause: Timeouts, retries, buffering, mirrors, rewrites, request headers or compression are set on a route that
    redirects or responds itself.
  example: routes: [{ name: gone, respond: { status: 410 }, timeouts: { response: 5s } }]
  remedy: Drop the field.
LB220 the names of a certificate are unknown
  cause: A listener chooses its certificate by server name; `names` is absent and the file cannot be read or has no
    DNS name.
  example: listeners: { web: { port: 8443, tls: { certificates: [{ cert: no-such.crt, key: no-such.key }] } } }
  remedy: Write the names, `names: [shop.example]`, or correct the file.
LB221 tiers and listeners that do not fit
  cause: A tier has no listener, a listener of a tiered topology has no tier, or a pool leads to a tier with several
    listeners and does not say which.
  example: tiers: { edge: {} }
  remedy: Write `tier: NAME` on the listener, or `listener: NAME` on the pool.
LB222 tiers that lead in circles
  cause: Following pools from tier to tier leads back to the first one.
  example: tiers: { edge: {}, app: {} }
    listeners: { web: { port: 8080, tier: edge }, inner: { port: 8081, tier: app } }
    pools: { to-app: { tier: app }, to-edge: { tier: edge } }
    routes: [{ name: in, listeners: [web], forward: to-app }, { name: back, listeners: [inner], forward: to-edge }]
  remedy: Let pools lead inwards only.
LB223 a route on listeners of several tiers
  cause: Each tier is an engine of its own, so a route belongs to one.
  example: tiers: { edge: {}, app: {} }
    listeners: { web: { port: 8080, tier: edge }, inner: { port: 8081, tier: app } }
  remedy: Name the listeners of one tier, or write a route for each.
LB224 a pool that does not speak what the next tier expects
  cause: TLS, the PROXY protocol, HTTP/2 or UDP is used on one side of the connection between two tiers only.
  example: tiers: { edge: {}, app: {} }
    listeners: { web: { port: 8080, tier: edge }, inner: { port: 8081, tier: app, proxy_protocol: accept } }
    pools: { to-app: { tier: app }, app: { endpoints: [{ address: "10.0.0.1:8080" }] } }
    routes: [{ name: in, listeners: [web], forward: to-app }, { name: app, listeners: [inner], forward: app }]
  remedy: Set the same on both sides, as the finding proposes.
LB225 replicas that cannot be
  cause: A tier has several replicas and no tier in front that balances them, or not as many hosts as replicas.
  example: tiers: { edge: { replicas: 2 } }
    listeners: { web: { port: 8080, tier: edge } }
  remedy: Put a tier in front, or write as many hosts as replicas.
LB226 a field of TCP connections on UDP
  cause: TLS, the PROXY protocol or a connect timeout is set where datagrams are forwarded.
  example: listeners: { dns: { port: 53, mode: l4, protocol: udp, proxy_protocol: accept } }
    routes: [{ name: dns, listeners: [dns], forward: app }]
  remedy: Drop the field, or write `protocol: tcp`.
LB227 a misspelt engine name
  cause: A key of `engines` is close to the name of an installed engine and is not that name.
  example: engines: { ngnix: { version: "1.31" } }
  remedy: Correct the name.
LB228 a field without effect beside another
  cause: The value of another field of the same object makes this one meaningless, such as `allow` of paths that are not
    strict.
  example: tls: { policy: modern, min_version: "1.2" }
  remedy: Drop the field, or change the other.
LB229 an identity in a field about the client's address
  cause: `auth` says who the client is by a field that the listener sets or reads for the client's address
    (`forwarded_headers.real_ip`, `forwarded`, `client_ip`). An endpoint could take one for the other.
  example: forwarded_headers: { real_ip: true }
    routes:
      - { name: app, forward: app, auth: { forward: { url: "http://127.0.0.1:9091", response_headers: [x-real-ip] } } }
  remedy: Have the service name the client in a field of its own, such as `x-user`.
LB230 the secret of sticky cookies cannot be used
  cause: The file that `sticky.secret` names cannot be read, or is too short.
  example: pools:
      app: { endpoints: [{ address: "10.0.0.1:8080" }], sticky: { cookie: LB, secret: no-such.key } }
  remedy: Create the file with `openssl rand -hex 32 > FILE`.
LB235 listeners that give one route different policies
  cause: The route is attached to two listeners whose `auth` or `policies` differ: a guard of one would be no guard of
    the other.
  example: policies: { office: { access: { allow: [10.0.0.0/8] } } }
    listeners: { web: { port: 8080 }, inside: { port: 8081, policies: [office] } }
    routes: [{ name: app, forward: app }]
  remedy: Write a route for each listener, with `listeners: [NAME]`, or the field on the route itself.
LB236 text that authenticates on one engine alone
  cause: A text under `engines` asks clients for a password or a token, and other engines do not get it: a change of
    engine would open every route. Where `accept` names `engines.verbatim.auth` for the engine, the text serves; any
    other engine still refuses the topology (LB302) until that is accepted for it too.
  example: engines: { nginx: { server: "auth_basic staff; auth_basic_user_file /etc/nginx/staff;" } }
  remedy: Use `auth` of routes and listeners, or write `accept: { nginx: [engines.verbatim.auth] }`.
LB237 an error page that cannot be used
  cause: The file of an error page cannot be read, is larger than 64 KiB, or is no text in UTF-8.
  example: error_pages: { 404: { file: no-such.html } }
  remedy: Correct the name, or write the text as `body`.
LB241 a file of users or keys that cannot be used
  cause: The htpasswd file of `auth` cannot be read or has a line that is not a name and a known hash, or the JWKS file
    holds something else than public keys.
  example: routes: [{ name: app, auth: { basic: { users: no-such.htpasswd } }, forward: app }]
  remedy: Correct the line that the finding names; `htpasswd -B FILE NAME` writes users.
LB242 an identity that clients can send
  cause: `auth` sends the endpoint a field that says who the client is, and the listener passes fields with underscores,
    which many endpoints read as that one.
  example: headers_with_underscores: pass
    routes:
      - { name: app, forward: app, auth: { forward: { url: "http://127.0.0.1:9091", response_headers: [x-user] } } }
  remedy: Write `headers_with_underscores: drop` on the listener.
LB243 a certificate whose names HTTP-01 cannot prove
  cause: `tls.acme` proves single host names. A route of the listener has a wildcard or an address, or no route has a
    host and `domains` is left out.
  example: listeners: { web: { port: 80 }, tls: { port: 443, tls: { acme: {} } } }
    routes: [{ name: app, hosts: ["*.shop.example"], forward: app }]
  remedy: Write `domains` with single names; wildcards need a client that does DNS-01, and its files in `certificates`.
LB244 challenges of ACME that nobody can answer
  cause: HTTP-01 asks by plain HTTP, and no L7 listener without TLS is there; or `acme_challenge` sends the questions of
    the agent's orders elsewhere, or names nobody; or several replicas would order the same.
  example: listeners: { web: { port: 443, tls: { acme: { domains: [shop.example] } } } }
  remedy: Add `http: { port: 80 }` to `listeners`, and what the finding says.
LB246 a placeholder that does not exist
  cause: A text has a word or a number in braces that is no placeholder, and no group of the route's path.
  example: routes: [{ name: app, forward: app, request_headers: { set: { x-real-ip: "{client_ipp}" } } }]
  remedy: Correct the name as the finding proposes; for the text itself double the braces.
LB247 a placeholder that has no value there
  cause: Where the placeholder stands the fact is not known, such as the route in an error page, or a client could
    choose a redirect's host by it.
  example: routes: [{ name: app, forward: app, request_headers: { set: { x-endpoint: "{endpoint}" } } }]
  remedy: Do what the finding proposes, or drop the placeholder.
LB251 a pool or policy that nothing uses
  cause: Neither a target nor a mirror of any route names the pool; no route and no listener names the policy.
  example: pools:
      app: { endpoints: [{ address: "10.0.0.1:8080" }] }
      old: { endpoints: [{ address: "10.0.0.2:8080" }] }
  remedy: Forward to it, or drop it.
LB252 a match that an earlier route covers in part
  cause: For some hosts, listeners or matches of the route, another route takes all requests before.
  example: routes: [{ name: app, match: [{ path: { prefix: /a } }, { path: { prefix: /a/ } }], forward: app }]
  remedy: Drop the covered part, or give the route a priority.
LB253 a route for all hosts that a host's catch-all hides
  cause: Routes of a host are tried before routes without hosts; a host whose own route takes everything never reaches
    them.
  example: routes:
      - { name: shop, hosts: [shop.example], forward: app }
      - { name: ping, match: [{ path: { exact: /ping } }], respond: { status: 200 } }
  remedy: List the hosts on the hidden route, or raise its priority.
LB254 a code in `ignore` that cannot be ignored
  cause: The entry is no code, or the code of an error in this topology. Only warnings and advice can be ignored.
  example: ignore: [LB999]
  remedy: Correct or drop the entry.
"""
