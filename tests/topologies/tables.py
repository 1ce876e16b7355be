"""What a route, pool or listener may say more: the feature that it asks for, and values that differ in their effect."""

from __future__ import annotations

from typing import Any

from lbgen.plan.features import Feature

Data = dict[str, Any]
# Throw-away certificates that `lbgen.runtime.common.certificates` makes.
SHOP, WILD, EXACT, RSA = ({"cert": f"{x}.crt", "key": f"{x}.key"} for x in ("shop", "wildcard", "exact", "api"))
ROUTE: dict[Feature, tuple[Data, ...]] = {
    Feature.RETRIES: (
        {"retries": {"max": 1, "on": ["connect_failure", "reset", "timeout", 502, 503, 504]}},
        {"retries": {"max": 2, "on": ["connect_failure", "reset", "timeout", 502, 503, 504], "methods": "all"}},
    ),
    Feature.RATE_LIMIT: ({"rate_limit": {"rate": "30/m", "burst": 12, "key": "client_ip"}},),
    Feature.CONCURRENCY: ({"concurrency": {"max": 4, "key": {"header": "x-key"}}},),
    Feature.MAX_BODY: ({"max_body": "1KiB"}, {"max_body": "100KiB"}),
    Feature.ROUTE_ACCESS: ({"access": {"allow": ["10.1.0.0/16"]}}, {"access": {"deny": ["10.2.0.0/16"]}}),
    Feature.CORS: (
        {"cors": {"origins": ["https://a.test", "https://*.a.test"], "methods": ["GET", "PUT"], "headers": ["x-c"]}},
        {"cors": {"origins": ["*"], "max_age": "10m"}},
    ),
    Feature.COMPRESSION: ({"compression": {"types": ["application/json"], "min_size": "1KiB"}},),
    Feature.BUFFERING: ({"buffering": {"request": True}}, {"buffering": {"response": True}}),
    Feature.RESPONSE_HEADERS_SET: ({"response_headers": {"set": {"x-r": "1"}, "remove": ["x-gone"]}},),
    Feature.REWRITE_PATH: ({"rewrite": {"path": "/all"}},),
    Feature.REWRITE_HOST: ({"rewrite": {"host": "inner.test"}},),
    Feature.REWRITE_PREFIX: ({"rewrite": {"prefix": "/new"}}, {"rewrite": {"prefix": "/"}}),
    Feature.MIRROR: (
        {"mirror": {"pool": "shadow", "percent": 100}},
        {"mirror": {"pool": "shadow", "percent": 30}},
    ),
    Feature.TIMEOUT_REQUEST: ({"timeouts": {"connect": "500ms", "response": "1s", "idle": "1s", "request": "1600ms"}},),
    Feature.REQUEST_HEADERS_SET: ({"request_headers": {"set": {"x-q": "1"}, "remove": ["x-b"]}},),
}
POOL: dict[Feature, tuple[Data, ...]] = {
    Feature.LEAST_CONNECTIONS: ({"balance": "least_connections"},),
    Feature.RANDOM: ({"balance": "random"},),
    Feature.SOURCE_HASH: ({"balance": "source_hash"},),
    Feature.HASH: ({"balance": {"hash": {"header": "x-user"}}}, {"balance": {"hash": {"query": "u"}}}),
    Feature.STICKY: ({"sticky": {"cookie": "LB"}}, {"sticky": {"cookie": "s", "ttl": "1h"}}),
    Feature.HEALTH_ACTIVE: ({"health": {"active": {"path": "/up", "interval": "800ms", "timeout": "700ms"}}},),
    Feature.BACKUP: ({"backup": True},),
    Feature.DRAIN: ({"drain": True},),
    Feature.MAX_PER_ENDPOINT: ({"connections": {"max_per_endpoint": 9}},),
    Feature.KEEPALIVE: ({"connections": {"keepalive": 2}},),
    Feature.PROXY_PROTOCOL_OUT: ({"proxy_protocol": "v1"}, {"proxy_protocol": "v2"}),
    Feature.POOL_HTTP2: ({"protocol": "http2"},),
    Feature.POOL_TLS: (
        {"tls": {"ca": "ca.crt", "server_name": "backend.internal"}},
        {
            "tls": {
                "ca": "ca.crt",
                "server_name": "backend.internal",
                "certificate": {"cert": "client.crt", "key": "client.key"},
            }
        },
        {"tls": {"verify": False, "server_name": "backend.internal"}},
    ),
    Feature.HEALTH_PASSIVE: ({"health": {"passive": {"failures": 3, "eject_for": "1s"}}},),
}
LISTENER: dict[Feature, tuple[Data, ...]] = {
    Feature.LISTENER_LIMITS: ({"limits": {"headers": "16KiB", "target": "2KiB"}},),
    Feature.LISTENER_ACCESS: ({"access": {"deny": ["192.0.2.0/24"]}},),
    Feature.PROXY_PROTOCOL_IN: ({"proxy_protocol": "accept"},),
    Feature.PATHS_ALLOW: (
        {"paths": {"allow": ["empty_segments"]}},
        {"paths": {"allow": ["encoded_slash"]}},
        {"paths": {"allow": ["empty_segments", "encoded_slash", "encoded_unreserved"]}},
    ),
    Feature.PATHS_NORMALIZE: ({"paths": "normalize"},),
    Feature.PATHS_VERBATIM: ({"paths": "verbatim"},),
    Feature.TLS_TERMINATE: (
        {"tls": {"certificates": [SHOP]}},
        {"tls": {"certificates": [SHOP, WILD, EXACT]}},
        {"tls": {"certificates": [WILD, RSA], "min_version": "1.3"}},
        {"tls": {"certificates": [RSA, SHOP], "policy": "modern"}, "http2": False},
    ),
    Feature.TLS_CLIENT_CERT: (
        {"tls": {"certificates": [WILD], "client": {"ca": "client-ca.crt"}}},
        {"tls": {"certificates": [WILD], "client": {"ca": "client-ca.crt", "verify": "optional"}}},
    ),
    Feature.HTTP2: ({"http2": True},),
    Feature.TRUSTED_PROXIES: ({"trusted_proxies": ["10.9.0.0/16"]},),
}
