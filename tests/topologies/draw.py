"""Random topologies of every feature that all engines claim, as data; and their smaller versions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from lbgen.engines.api import Level, engine
from lbgen.plan.features import Feature

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

Data = dict[str, Any]
# What a route, pool or listener may say more: the feature that it asks for, and values that differ in their effect.
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
    Feature.REQUEST_HEADERS_SET: ({"request_headers": {"set": {"x-q": "1"}, "remove": ["x-b"]}},),
}
POOL: dict[Feature, tuple[Data, ...]] = {
    Feature.LEAST_CONNECTIONS: ({"balance": "least_connections"},),
    Feature.RANDOM: ({"balance": "random"},),
    Feature.SOURCE_HASH: ({"balance": "source_hash"},),
    Feature.HASH: ({"balance": {"hash": {"header": "x-user"}}}, {"balance": {"hash": {"query": "u"}}}),
    Feature.STICKY: ({"sticky": {"cookie": "LB"}}, {"sticky": {"cookie": "s", "ttl": "1h"}}),
    Feature.HEALTH_ACTIVE: ({"health": {"active": {"path": "/up", "interval": "600ms", "timeout": "500ms"}}},),
    Feature.HEALTH_PASSIVE: ({"health": {"passive": {"failures": 3, "eject_for": "1s"}}},),
}
LISTENER: dict[Feature, tuple[Data, ...]] = {
    Feature.LISTENER_LIMITS: ({"limits": {"headers": "16KiB", "target": "2KiB"}},),
    Feature.LISTENER_ACCESS: ({"access": {"deny": ["192.0.2.0/24"]}},),
    Feature.TRUSTED_PROXIES: ({"trusted_proxies": ["10.9.0.0/16"]},),
}
MATCHES: tuple[Data, ...] = (
    {"path": {"prefix": "/a"}},
    {"path": {"prefix": "/a/b"}},
    {"path": {"exact": "/a"}},
    {"path": {"regex": "/a/[0-9]+"}},
    {"path": {"prefix": "/b"}, "methods": ["GET", "POST"]},
    {"path": {"prefix": "/a"}, "headers": {"x-a": "1"}},
    {"path": {"prefix": "/a"}, "query": {"q": {"present": True}}},
    {"path": {"prefix": "/b"}, "cookies": {"c": "1"}},
    {"path": {"prefix": "/c"}},
)
HOSTS = (None, None, ["a.test"], ["*.a.test"], ["b.a.test", "a.test"])
TIMES = {"connect": "300ms", "response": "600ms", "idle": "600ms"}
CLIENT_TIMES = {"client_header": "900ms", "client_body": "900ms", "keepalive": "1200ms"}


def claimed(feature: Feature, engines: tuple[str, ...]) -> bool:
    """Whether all engines, in their newest versions, honour it to the letter."""
    levels = {engine(name).verdict(feature, engine(name).versions[0]).level for name in engines}
    return levels <= {Level.NATIVE, Level.EMULATED}


def topology(rng: random.Random, engines: tuple[str, ...]) -> Data:
    """A topology of features that all of these engines claim."""

    def more(of: dict[Feature, tuple[Data, ...]], chance: float) -> Data:
        found: Data = {}
        for feature, values in of.items():
            if rng.random() >= chance:
                continue
            value = rng.choice(values)
            if claimed(feature, engines) and not found.keys() & value.keys():
                found |= value
        return found

    pools: Data = {}
    for number in range(3):
        endpoints = [
            {"address": f"10.3.{number}.{n + 1}:8000", "weight": rng.choice((1, 1, 2))}
            for n in range(rng.choice((1, 2, 3)))
        ]
        extra = more(POOL, 0.15)
        if "source_hash" in extra.values() or extra.get("balance") == "least_connections":
            endpoints = [{**endpoint, "weight": 1} for endpoint in endpoints]
        pools[f"p{number}"] = {"endpoints": endpoints, **extra}
    routes: list[Data] = []
    for number, (match, host) in enumerate(
        zip(rng.sample(MATCHES, rng.randint(2, 6)), rng.choices(HOSTS, k=6), strict=False)
    ):
        route: Data = {"name": f"r{number}", "match": [copy.deepcopy(match)]}
        if host is not None:
            route["hosts"] = host
        kind = rng.choice(("forward", "forward", "forward", "split", "redirect", "respond"))
        if kind == "redirect":
            route |= {"redirect": {"path": "/moved"}}
        elif kind == "respond":
            route |= {"respond": {"status": 200, "body": "here\n"}}
        else:
            pool = rng.choice(list(pools))
            both = rng.sample(list(pools), 2)
            route["forward"] = (
                pool if kind == "forward" else [{"pool": p, "weight": w} for p, w in zip(both, (3, 1), strict=True)]
            )
            route |= copy.deepcopy(more(ROUTE, 0.15))
        routes.append(route)
    routes.append({"name": "rest", "forward": "p0"})
    return {
        "version": 1,
        "name": "random",
        "profile": "minimal",
        "timeouts": TIMES,
        "client_timeouts": CLIENT_TIMES,
        "accept": ["all"],
        "listeners": {"web": {"port": 8080, **more(LISTENER, 0.3)}},
        "pools": pools,
        "routes": routes,
    }


def smaller(data: Data) -> Iterator[Data]:
    """The topology without one route, or without one thing that a route, pool or listener says."""
    for index in range(len(data["routes"])):
        if len(data["routes"]) > 1:
            less = copy.deepcopy(data)
            del less["routes"][index]
            yield less
    for kind, keep in (
        ("routes", {"name", "forward", "redirect", "respond"}),
        ("pools", {"endpoints"}),
        ("listeners", {"port"}),
    ):
        items = range(len(data[kind])) if kind == "routes" else list(data[kind])
        for item in items:
            for key in data[kind][item]:
                if key not in keep:
                    less = copy.deepcopy(data)
                    del less[kind][item][key]
                    yield less
