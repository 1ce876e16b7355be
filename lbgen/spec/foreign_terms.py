"""Hints for keys and words of nginx, HAProxy, Envoy, Traefik and Kubernetes: what lbgen calls them."""

from __future__ import annotations

# By model and key. A sentence that ends a finding: "unknown key; ...".
_ENDPOINTS = 'write endpoints: [{ address: "10.0.0.1:8080" }]'
_FORWARD = "write forward: with the name of a pool"
_CERTIFICATES = "write certificates: [{ cert: FILE, key: FILE }]"
_LISTENER_TLS = f"write tls: {{ {_CERTIFICATES.removeprefix('write ')} }}"
_HOSTS = "hosts belong on the route: write hosts: [shop.example] there"
_PATH = "write match: [{ path: { prefix: /api } }]"
_IN_MATCH = "it belongs in match: write match: [{ path: { prefix: / }, ... }]"
_ON_POOL = "it belongs on the pool"
_ON_ROUTE = "it belongs on the route"
_WEBSOCKET = "WebSockets need no key: every l7 route forwards them, and timeouts: { idle: 1h } limits their silence"
_MAX_BODY = "write max_body: 10MiB"

KEYS: dict[str, dict[str, str]] = {
    "Listener": {
        **dict.fromkeys(("type", "kind"), "write mode: l7 or l4, and protocol: udp for datagrams"),
        **dict.fromkeys(("bind", "listen"), "write port: 8080, and address: for one address of the host"),
        **dict.fromkeys(("ssl", "cert", "certificate", "certificates"), _LISTENER_TLS),
        **dict.fromkeys(("host", "hosts", "hostname", "server_name", "domains"), _HOSTS),
        **dict.fromkeys(("websocket", "websockets"), _WEBSOCKET),
        **dict.fromkeys(("timeout", "read_timeout"), "write timeouts: { client_header: 10s, client_body: 30s }"),
        "routes": "routes belong at the top level and name their listeners",
        "max_body": "it belongs at the top level or on the route",
    },
    "ListenerTls": {
        **dict.fromkeys(
            ("cert", "key", "certificate", "certificate_key", "crt", "cert_file", "key_file"), _CERTIFICATES
        ),
        **dict.fromkeys(("ciphers", "cipher_suites"), "write policy: modern or intermediate"),
        **dict.fromkeys(("protocols", "versions", "version"), 'write min_version: "1.2" or "1.3"'),
        **dict.fromkeys(("ca", "client_ca", "mtls"), "write client: { ca: FILE }"),
    },
    "Pool": {
        **dict.fromkeys(("servers", "members", "targets", "backends", "hosts", "addresses", "upstreams"), _ENDPOINTS),
        **dict.fromkeys(
            ("algorithm", "lb_method", "lb_policy", "strategy", "method"), "write balance: least_connections"
        ),
        **dict.fromkeys(
            ("health_check", "health_checks", "healthcheck", "check", "checks"),
            "write health: { active: { path: /healthz } }",
        ),
        **dict.fromkeys(("max_connections", "maxconn"), "write connections: { max_per_endpoint: 100 }"),
        "keepalive": "write connections: { keepalive: 64 }",
        **dict.fromkeys(("timeout", "timeouts", "retries", "rewrite"), _ON_ROUTE),
        "name": "the name is the key: pools: { NAME: { ... } }",
    },
    "Endpoint": {
        **dict.fromkeys(("host", "port", "ip", "server", "url", "target"), 'write address: "host:port"'),
        **dict.fromkeys(
            ("max_fails", "fail_timeout"), "write health: { passive: { failures: 5, eject_for: 10s } } on the pool"
        ),
        **dict.fromkeys(("down", "drain"), "write weight: 0"),
        **dict.fromkeys(("tls", "ssl", "health", "check", "maxconn"), _ON_POOL),
    },
    "Health": dict.fromkeys(
        ("path", "interval", "timeout", "fall", "rise", "port", "expect"),
        "it belongs in active: { path: /healthz, interval: 2s }",
    ),
    "ActiveHealth": {
        **dict.fromkeys(("unhealthy_threshold", "max_fails", "failures", "fails"), "write fall: 3"),
        **dict.fromkeys(("healthy_threshold", "passes", "successes"), "write rise: 2"),
        **dict.fromkeys(
            ("status", "statuses", "expected_statuses", "expect_status", "codes"), "write expect: [200-299]"
        ),
        **dict.fromkeys(("uri", "url"), "write path: /healthz"),
        "type": "leave it out: with path: it is an HTTP check, without one a connection",
    },
    "PassiveHealth": {
        **dict.fromkeys(("max_fails", "consecutive_5xx", "threshold"), "write failures: 5"),
        **dict.fromkeys(("fail_timeout", "ejection_time", "base_ejection_time", "interval"), "write eject_for: 10s"),
    },
    "Sticky": {
        "name": "write cookie: with the name",
        **dict.fromkeys(("max_age", "expires", "lifetime"), "write ttl: 1h"),
        **dict.fromkeys(("http_only", "same_site", "path"), "every cookie has Path=/; HttpOnly; SameSite=Lax"),
    },
    "Match": {
        **dict.fromkeys(("host", "hosts", "hostname", "domains"), _HOSTS),
        "method": "write methods: [GET]",
        "header": "write headers: { x-name: value }",
        **dict.fromkeys(
            ("prefix", "exact", "regex", "uri", "paths"), "write path: { prefix: /api }, or exact, or regex"
        ),
        **dict.fromkeys(("source", "sources", "client_ip"), "write access: on the route; sources: of an l4 route"),
    },
    "Route": {
        "listener": "write listeners: [web], a list",
        **dict.fromkeys(("host", "hostname", "domain", "domains", "server_name"), "write hosts: [shop.example]"),
        **dict.fromkeys(("path", "paths", "prefix", "location", "uri"), _PATH),
        **dict.fromkeys(("method", "methods", "query", "cookies"), _IN_MATCH),
        "headers": "write it in match: to look at headers, request_headers: or response_headers: to edit them",
        **dict.fromkeys(("websocket", "websockets", "upgrade"), _WEBSOCKET),
        **dict.fromkeys(
            ("backend", "backends", "cluster", "pool", "proxy_pass", "service", "services", "target", "to", "upstream"),
            _FORWARD,
        ),
        **dict.fromkeys(("timeout", "read_timeout"), "write timeouts: { connect: 1s, response: 10s, idle: 60s }"),
        **dict.fromkeys(("strip_prefix", "stripprefix"), "write rewrite: { prefix: / }"),
        "return": "write respond: { status: 404 }, or redirect: { path: /new }",
        "weight": "write forward: [{ pool: NAME, weight: 5 }, ...]",
        **dict.fromkeys(("limit", "rate", "limit_req"), "write rate_limit: { rate: 10/s, key: client_ip }"),
        **dict.fromkeys(("max_body_size", "client_max_body_size", "body_limit"), _MAX_BODY),
        **dict.fromkeys(("balance", "health", "health_check", "sticky", "keepalive"), _ON_POOL),
        "tls": "it belongs on the listener; towards endpoints, on the pool",
        "add_header": "write response_headers: { set: { x-name: value } }",
    },
    "Timeouts": {
        **dict.fromkeys(
            ("read", "send", "write"), "write response: for the wait for an answer, idle: for silence in a body"
        ),
        **dict.fromkeys(
            ("client", "client_header", "client_body", "keepalive"), "it belongs in timeouts: of the listener"
        ),
        **dict.fromkeys(("total", "overall"), "write request: 30s"),
        "tunnel": "write idle: 1h",
    },
    "Retries": {
        **dict.fromkeys(
            ("attempts", "num_retries", "retries", "count", "tries"), "write max: 2, which counts extra tries"
        ),
        **dict.fromkeys(("retry_on", "conditions", "statuses"), "write on: [connect_failure, 503]"),
        **dict.fromkeys(("timeout", "per_try_timeout"), "write timeouts: { response: 5s } on the route"),
        **dict.fromkeys(("backoff", "back_off", "interval"), "retries are made at once; leave it out"),
    },
    "RateLimit": {
        **dict.fromkeys(("requests", "average", "limit", "requests_per_second"), "write rate: 100/s"),
        **dict.fromkeys(("period", "interval", "unit", "per"), "it is part of the rate: 100/s, 30/m or 5/h"),
        **dict.fromkeys(("by", "source", "client"), "write key: client_ip, route or { header: NAME }"),
    },
    "Redirect": {
        **dict.fromkeys(("url", "to", "location", "target"), "write its parts: scheme:, host:, port:, path:"),
        **dict.fromkeys(("code", "permanent"), "write status: 301"),
        "https": "write scheme: https",
    },
    "Respond": {
        "code": "write status: 200",
        **dict.fromkeys(("content", "text"), "write body:"),
        "content_type": "write headers: { content-type: text/html }",
    },
    "Cors": dict.fromkeys(
        ("allow_origins", "allowed_origins", "allow_origin"), 'write origins: ["https://shop.example"]'
    )
    | dict.fromkeys(("allow_methods", "allowed_methods"), "write methods: [GET, POST]")
    | dict.fromkeys(("allow_headers", "allowed_headers"), "write headers: [content-type]")
    | {"allow_credentials": "write credentials: true"},
    "TopologyModel": {
        **dict.fromkeys(("upstreams", "backends", "clusters", "services"), "write pools:"),
        **dict.fromkeys(("frontends", "servers", "entrypoints", "entryPoints"), "write listeners:"),
        **dict.fromkeys(("rules", "http", "routers"), "write routes:"),
        "max_body_size": _MAX_BODY,
        "log": "write access_log: json or none",
    },
}
# By the key of the value and the word.
WORDS: dict[tuple[str, str], str] = {
    ("mode", "tcp"): "write mode: l4",
    ("mode", "udp"): "write mode: l4, protocol: udp",
    ("mode", "http"): "write mode: l7",
    ("mode", "https"): "write mode: l7, and tls: for the certificates",
    ("protocol", "http"): "leave it out, or write mode: l7",
    ("protocol", "https"): "write tls: for it",
    ("protocol", "h2c"): "write http2",
    ("protocol", "h2"): "write http2",
    **dict.fromkeys((("method", "ip_hash"), ("method", "source")), "write source_hash"),
    **dict.fromkeys(
        (("method", "rr"), ("method", "wrr"), ("method", "weighted")), "write round_robin; weights are on endpoints"
    ),
    ("method", "leastconn"): "write least_connections",
    **dict.fromkeys((("by", "ip"), ("by", "client"), ("by", "remote_addr")), "write client_ip"),
    **dict.fromkeys((("by", "all"), ("by", "global")), "write route"),
}
# Conditions of retries.
CAUSES: dict[str, str] = {
    "5xx": "write the statuses: 500, 502, 503, 504",
    "4xx": "write the statuses, such as 409, 429",
    "gateway-error": "write 502, 503, 504",
    "connect-failure": "write connect_failure",
    "error": "write connect_failure, reset",
    "read": "write reset, and timeout",
    "refused-stream": "write reset",
    **{f"http-{status}": f"write {status}" for status in (429, 500, 502, 503, 504)},
}
