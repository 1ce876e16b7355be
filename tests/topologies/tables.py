"""What a route, pool or listener may say more: the feature that it asks for, and values that differ in their effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lbgen.plan.features import Feature

Data = dict[str, Any]
# Throw-away certificates that `lbgen.runtime.common.certificates` makes.
SHOP, WILD, EXACT, RSA = ({"cert": f"{x}.crt", "key": f"{x}.key"} for x in ("shop", "wildcard", "exact", "api"))
ROUTE: dict[Feature, tuple[Data, ...]] = {
    "route.retries": (
        {"retries": {"max": 1, "on": ["connect_failure", "reset", "timeout", 502, 503, 504]}},
        {"retries": {"max": 2, "on": ["connect_failure", "reset", "timeout", 502, 503, 504], "methods": "all"}},
    ),
    "route.rate_limit": ({"rate_limit": {"rate": "30/m", "burst": 12, "key": "client_ip"}},),
    "route.concurrency": ({"concurrency": {"max": 4, "key": {"header": "x-key"}}},),
    "route.max_body": ({"max_body": "1KiB"}, {"max_body": "100KiB"}),
    "route.access": ({"access": {"allow": ["10.1.0.0/16"]}}, {"access": {"deny": ["10.2.0.0/16"]}}),
    "route.cors": (
        {"cors": {"origins": ["https://a.test", "https://*.a.test"], "methods": ["GET", "PUT"], "headers": ["x-c"]}},
        {"cors": {"origins": ["*"], "max_age": "10m"}},
    ),
    "route.compression": ({"compression": {"types": ["application/json"], "min_size": "1KiB"}},),
    "route.buffering": ({"buffering": {"request": True}}, {"buffering": {"response": True}}),
    "route.response_headers.set": ({"response_headers": {"set": {"x-r": "1"}, "remove": ["x-gone"]}},),
    "route.rewrite.path": ({"rewrite": {"path": "/all"}},),
    "route.rewrite.host": ({"rewrite": {"host": "inner.test"}},),
    "route.rewrite.prefix": ({"rewrite": {"prefix": "/new"}}, {"rewrite": {"prefix": "/"}}),
    "route.mirror": (
        {"mirror": {"pool": "shadow", "percent": 100}},
        {"mirror": {"pool": "shadow", "percent": 30}},
    ),
    "timeouts.request": ({"timeouts": {"connect": "500ms", "response": "1s", "idle": "1s", "request": "1600ms"}},),
    "route.request_headers.set": (
        {"request_headers": {"set": {"x-q": "1"}, "remove": ["x-b"]}},
        {"request_headers": {"set": {"x-q": "{method} {host} {path}?{query}"}, "add": {"x-b": "{header.x-b}"}}},
    ),
    "route.error_pages": (
        {"error_pages": {"5xx": {"body": "{method} {uri} of {client_ip}: {header.x-a}{cookie.c} {request_id}\n"}}},
        {"error_pages": {"403": {"body": '{"host":"{host}"}', "content_type": "application/json"}}},
    ),
}
POOL: dict[Feature, tuple[Data, ...]] = {
    "pool.balance.least_connections": ({"balance": "least_connections"},),
    "pool.balance.random": ({"balance": "random"},),
    "pool.balance.source_hash": ({"balance": "source_hash"},),
    "pool.balance.hash": ({"balance": {"hash": {"header": "x-user"}}}, {"balance": {"hash": {"query": "u"}}}),
    "pool.sticky": ({"sticky": {"cookie": "LB"}}, {"sticky": {"cookie": "s", "ttl": "1h"}}),
    "pool.health.active": ({"health": {"active": {"path": "/up", "interval": "800ms", "timeout": "700ms"}}},),
    "pool.backup": ({"backup": True},),
    "pool.weights.zero": ({"drain": True},),
    "pool.connections.max_per_endpoint": ({"connections": {"max_per_endpoint": 9}},),
    "pool.connections.keepalive": ({"connections": {"keepalive": 2}},),
    "pool.proxy_protocol": ({"proxy_protocol": "v1"}, {"proxy_protocol": "v2"}),
    "pool.protocol.http2": ({"protocol": "http2"},),
    "pool.tls": (
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
    "pool.health.passive": ({"health": {"passive": {"failures": 3, "eject_for": "1s"}}},),
}
LISTENER: dict[Feature, tuple[Data, ...]] = {
    "listener.limits": ({"limits": {"headers": "16KiB", "target": "2KiB"}},),
    "listener.access": ({"access": {"deny": ["192.0.2.0/24"]}},),
    "listener.proxy_protocol": ({"proxy_protocol": "accept"},),
    "paths.allow": (
        {"paths": {"allow": ["empty_segments"]}},
        {"paths": {"allow": ["encoded_slash"]}},
        {"paths": {"allow": ["empty_segments", "encoded_slash", "encoded_unreserved"]}},
    ),
    "paths.normalize": ({"paths": "normalize"},),
    "paths.verbatim": ({"paths": "verbatim"},),
    "listener.tls": (
        {"tls": {"certificates": [SHOP]}},
        {"tls": {"certificates": [SHOP, WILD, EXACT]}},
        {"tls": {"certificates": [WILD, RSA], "min_version": "1.3"}},
        {"tls": {"certificates": [RSA, SHOP], "policy": "modern"}, "http2": False},
    ),
    "listener.tls.client": (
        {"tls": {"certificates": [WILD], "client": {"ca": "client-ca.crt"}}},
        {"tls": {"certificates": [WILD], "client": {"ca": "client-ca.crt", "verify": "optional"}}},
    ),
    "listener.http2": ({"http2": True},),
    "listener.trusted_proxies": ({"trusted_proxies": ["10.9.0.0/16"]},),
    "listener.error_pages": ({"error_pages": {"404": {"body": "{scheme} {listener}: no {path} for {client_ip}\n"}}},),
}
