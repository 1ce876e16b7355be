"""What is valid and probably not intended. Each can be silenced with `ignore: [CODE]`."""

TEXT = """
LB238 passwords or tokens that travel in clear
  cause: `auth` of the kind `basic` or `jwt` on a listener without TLS that other hosts reach: whoever is on the way
    reads the password or the token of each request, and can use it.
  example: routes: [{ name: app, forward: app,
      auth: { jwt: { issuer: login.example, audience: [shop], jwks: "https://login.example/keys" } } }]
  remedy: Write `tls` on the listener. Where something in front ends TLS, name its address in `trusted_proxies`; for
    this host alone, write `address: 127.0.0.1`.
LB261 retries of requests that may not be repeated
  cause: With `methods: all`, a request that is not idempotent, such as POST, may be carried out twice.
  example: routes: [{ name: app, forward: app, retries: { max: 1, on: [timeout], methods: all } }]
  remedy: Drop `methods: all`, or match methods that may be repeated only.
LB262 retries that take longer than the client waits
  cause: All tries together exceed the request timeout, or there is none and the total is long.
  example: routes: [{ name: app, forward: app, retries: { max: 2, on: [timeout] },
      timeouts: { response: 5s, request: 9s } }]
  remedy: Shorten the response timeout, allow fewer tries, or set a request timeout.
LB263 slow and fast routes that share a pool
  cause: One route has a response timeout ten times that of another on the same pool. Slow requests hold the connections
    that fast ones need.
  example: routes:
      - { name: app, forward: app, timeouts: { response: 1s } }
      - { name: report, match: [{ path: { prefix: /r } }], forward: app, timeouts: { response: 60s } }
  remedy: Give the slow route a pool of its own.
LB264 an L7 listener that uses nothing of L7
  cause: Every request is forwarded unchanged to one kind of endpoint; L4 does the same for less work.
  example: routes: [{ name: app, forward: app }]
  remedy: Write `mode: l4`, or keep L7 for X-Forwarded-For, request ids and access logs.
LB265 a regular expression that equals a plain text
  cause: The expression matches what `exact` or `prefix` matches, and costs more.
  example: routes: [{ name: app, match: [{ path: { regex: "/a" } }], forward: app }]
  remedy: Write the path that the finding proposes.
LB266 request bodies without a size limit
  cause: Neither the topology nor the route has `max_body`.
  example: routes: [{ name: app, forward: app }]
  remedy: Write `max_body`, such as 10MiB, for the topology or the route.
LB267 a pool without health checks
  cause: The pool has several endpoints and neither active nor passive checks: a failed endpoint keeps its share.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.2:8080" }] } }
  remedy: Add `health`, active or passive.
LB268 CORS on a route that preflights do not reach
  cause: Browsers send an OPTIONS request first, and the route does not match that method.
  example: routes: [{ name: app, match: [{ methods: [GET] }], cors: { origins: ["https://a.example"] }, forward: app }]
  remedy: Add OPTIONS to `methods`.
LB269 sticky sessions without health checks
  cause: Clients stay with an endpoint that has failed, as nothing detects the failure.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.2:8080" }],
      sticky: { cookie: LB } } }
  remedy: Add `health`, active or passive.
LB270 limits by client address behind a possible proxy
  cause: The key of the limit is the peer's address and the listener trusts no proxies: all clients of a proxy or CDN
    share one limit.
  example: routes: [{ name: app, rate_limit: { rate: 10/s, key: client_ip }, forward: app }]
  remedy: Name the proxies in `trusted_proxies`, or ignore the advice where clients connect directly.
LB271 a timeout of 0
  cause: `0s` turns the limit off: a client or an endpoint that hangs holds its connection for ever.
  example: routes: [{ name: app, forward: app, timeouts: { response: 0s } }]
  remedy: Write a time, such as 60s.
LB272 retries with a single endpoint
  cause: Every try goes to the same endpoint.
  example: routes: [{ name: app, forward: app, retries: { max: 1, on: [connect_failure] } }]
  remedy: Add an endpoint, or drop `retries`.
LB273 CORS for every origin with credentials
  cause: Browsers refuse `*` with credentials; if they did not, any page could act with a visitor's cookies. This is an
    error.
  example: routes: [{ name: app, cors: { origins: ["*"], credentials: true }, forward: app }]
  remedy: List the origins, or drop `credentials: true`.
LB274 a mirror of the pool that serves the route
  cause: The endpoints would get each request twice.
  example: routes: [{ name: app, forward: app, mirror: [{ pool: app, percent: 10 }] }]
  remedy: Mirror to another pool.
LB275 compression of compressed media types
  cause: Images, videos and archives are compressed already: gzip costs time and saves nothing.
  example: routes: [{ name: app, forward: app, compression: { types: [image/png] } }]
  remedy: Drop the media type.
LB276 a backup without health checks
  cause: A backup takes over when the other endpoints are known to be down, and nothing checks them.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.2:8080", backup: true }] } }
  remedy: Add `health`, active or passive.
LB277 TLS to endpoints without verification
  cause: With `verify: false` any certificate is accepted, so that traffic can be intercepted.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8443" }], tls: { verify: false } } }
  remedy: Name the `ca` and drop `verify: false`.
LB278 a response timeout above the request timeout
  cause: The whole request ends before the response timeout can pass.
  example: routes: [{ name: app, forward: app, timeouts: { response: 30s, request: 10s } }]
  remedy: Make `response` shorter than `request`.
LB279 HSTS over plain HTTP
  cause: Browsers ignore Strict-Transport-Security on responses without TLS.
  example: routes: [{ name: app, forward: app, response_headers: { set: { Strict-Transport-Security: max-age=3600 } } }]
  remedy: Set the header where TLS is terminated.
LB280 text for one engine
  cause: `engines.NAME` holds configuration text that other engines do not get and that lbgen cannot verify. They refuse
    the topology, as the text may hold an access rule, unless `accept: { all: [engines.verbatim] }` says that they
    may serve without it.
  example: engines: { nginx: { http: "log_subrequest on;" } }
  remedy: Use fields of the topology where they exist.
LB281 client addresses that end at the tier in front
  cause: The inner tier sees the address of the outer one: no PROXY header is sent, or X-Forwarded-For is not trusted.
  example: tiers: { edge: {}, app: {} }
    listeners: { web: { port: 8080, mode: l4, tier: edge }, inner: { port: 8081, tier: app } }
    pools: { to-app: { tier: app }, app: { endpoints: [{ address: "10.0.0.1:8080" }] } }
    routes: [{ name: in, listeners: [web], forward: to-app }, { name: app, listeners: [inner], forward: app }]
  remedy: Use `proxy_protocol` between L4 and L7 tiers, and `trusted_proxies` between L7 tiers.
LB282 TLS that ends before the tier that reports it
  cause: An L4 tier terminates TLS and the L7 tier behind it sees plain HTTP: X-Forwarded-Proto and redirects say http.
  example: tiers: { edge: {}, app: {} }
    listeners:
      web: { port: 8443, mode: l4, tier: edge, tls: { certificates: [{ cert: pair.crt, key: pair.key }] } }
      inner: { port: 8081, tier: app }
    pools: { to-app: { tier: app }, app: { endpoints: [{ address: "10.0.0.1:8080" }] } }
    routes: [{ name: in, listeners: [web], forward: to-app }, { name: app, listeners: [inner], forward: app }]
  remedy: Write `tls: { mode: passthrough }` on the L4 tier and terminate TLS on the L7 tier.
LB283 an L4 tier behind an L7 tier
  cause: The L7 tier balances requests already; the L4 tier adds a hop.
  example: tiers: { edge: {}, tcp: {} }
    listeners: { web: { port: 8080, tier: edge }, inner: { port: 8081, mode: l4, tier: tcp } }
    pools: { to-tcp: { tier: tcp }, app: { endpoints: [{ address: "10.0.0.1:8080" }] } }
    routes: [{ name: in, listeners: [web], forward: to-tcp }, { name: app, listeners: [inner], forward: app }]
  remedy: Drop the L4 tier, or put it in front.
LB286 a header field that the listener drops
  cause: A match, limit or hash uses a header field with an underscore in its name, or X-Forwarded-* or X-Request-Id,
    and the listener drops such fields: all of the first kind, and of the second those of clients that are no trusted
    proxies. Or it uses a field that says who the client is (`real_ip`, `forwarded`, `client_ip`), or that `auth` of a
    route of the listener makes (`response_headers`, `claims_to_headers`), after rules and limits. This is an error.
  example: routes: [{ name: app, match: [{ headers: { x_user: admin } }], forward: app }]
  remedy: Use a name with hyphens, or write `headers_with_underscores: pass` or `trusted_proxies` on the listener. For
    the client's address use `sources` or `key: client_ip`; by who the client is, let the service that `auth` asks
    decide.
LB288 a default that nothing uses
  cause: A default at the top of the topology applies to no route or listener, or each of them sets its own value.
  example: resolvers: [10.0.0.2]
  remedy: Drop the default.
LB289 settings of an engine that is not installed
  cause: A key of `engines` is the name of no installed engine, so nothing reads it.
  example: engines: { varnish: { version: "7.5" } }
  remedy: Install the engine's package, or drop the block.
LB290 a redirect to https that leads to a port without TLS
  cause: No listener speaks TLS on the port of the redirect, which is 443 where `port` is not written.
  example: listeners:
      web: { port: 8080 }
      secure: { port: 8443, tls: { certificates: [{ cert: pair.crt, key: pair.key }] } }
    routes:
      - { name: up, listeners: [web], redirect: { status: 301, scheme: https } }
      - { name: app, listeners: [secure], forward: app }
  remedy: Write the port of a TLS listener, or ignore the advice where something in front speaks TLS on that port.
LB293 sticky cookies whose values can be computed
  cause: Without a secret the cookie's value follows from the topology's name and the endpoint's address.
  example: pools: { app: { endpoints: [{ address: "10.0.0.1:8080" }, { address: "10.0.0.2:8080" }],
      sticky: { cookie: LB } } }
  remedy: Add `secret: FILE` to `sticky` (`openssl rand -hex 32 > FILE`).
LB294 metrics that other hosts can read
  cause: The address of `metrics` is not loopback. They name routes and endpoints, and need no password.
  example: metrics: { port: 9100, address: 0.0.0.0 }
  remedy: Leave `address` out where the collector runs on this host; else keep others away by a firewall.
LB295 a variable of an engine in a text
  cause: The text looks like a variable of nginx, HAProxy or Envoy. Texts of a topology are literal on every engine.
  example: routes: [{ name: app, forward: app, request_headers: { set: { x-real-ip: "$remote_addr" } } }]
  remedy: Write the placeholder that the finding names, or the value itself. X-Forwarded-For, -Proto, -Host, -Port and
    X-Request-Id reach endpoints anyway, and X-Real-IP by `forwarded_headers: { real_ip: true }`.
LB296 a placeholder in a path
  cause: A path has an asterisk or `:name`. `exact` and `prefix` compare the characters as they stand.
  example: routes: [{ name: app, forward: app, match: [{ path: { prefix: "/api/*" } }] }]
  remedy: A prefix covers what is below it; write `regex` for a part in the middle.
LB297 challenges of ACME that may not arrive
  cause: An authority asks on port 80, from addresses that it does not publish. The listener has another port, or an
    access list.
  example: listeners:
      web: { port: 8080 }
      secure: { port: 8443, tls: { acme: { domains: [shop.example] } } }
  remedy: Listen on port 80 and write `access` on routes; or ignore the advice where port 80 is forwarded to the
    listener, or the authority is your own.
LB298 a route that is open beside a guarded one
  cause: One route guards a path by `access` or `auth`, and on another host or listener a route without either takes
    requests for that path: to the same pool, or for the very same path.
  example: listeners: { web: { port: 8080 }, other: { port: 8081 } }
    routes:
      - { name: admin, listeners: [web], match: [{ path: { prefix: /admin } }], access: { allow: [10.0.0.0/8] },
          forward: app }
      - { name: all, listeners: [other], forward: app }
  remedy: Guard both, by a policy that both name. `auth: none`, or `access` that allows `0.0.0.0/0`, says that it is
    meant to be open.
LB299 a page that shows what a client sent
  cause: The body of an answer or an error page of HTML has a placeholder whose value a link can choose, and values are
    not escaped.
  example: routes: [{ name: lost,
      respond: { status: 404, body: "<p>{path}</p>", headers: { content-type: text/html } } }]
  remedy: Answer with text/plain, or leave the value out.
"""
