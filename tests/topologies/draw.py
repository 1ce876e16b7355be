"""Random topologies of every feature that all engines claim, as data; and their smaller versions."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from lbgen.engines.api import Level, engine
from lbgen.plan.features import Feature
from tests.topologies.tables import LISTENER, POOL, ROUTE, SHOP, WILD

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

Data = dict[str, Any]
Table = dict[Feature, tuple[Data, ...]]
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
REDIRECTS: tuple[Data, ...] = (
    {"path": "/moved"},
    {"scheme": "https", "status": 301},
    {"host": "new.test", "port": 8443, "status": 307},
    {"scheme": "http", "host": "new.test"},
)
ANSWERS = {feature: ROUTE[feature] for feature in ("route.response_headers.set", "route.access", "route.max_body")}
BYTES = {feature: LISTENER[feature] for feature in ("listener.access", "listener.proxy_protocol")}
RARE = ("pool.proxy_protocol",)  # nginx has it for bytes only, and is left out of what asks for it
BYTES_POOL = {"pool.proxy_protocol": POOL["pool.proxy_protocol"]}
HOSTS = (None, None, ["wild.example"], ["*.wild.example"], ["in.wild.example", "wild.example"])
# Long enough for a busy machine: it waits, and does little.
TIMES = {"connect": "500ms", "response": "1s", "idle": "1s"}
CLIENT_TIMES = {"client_header": "1400ms", "client_body": "1400ms", "keepalive": "1800ms"}


def claimed(feature: Feature, engines: tuple[str, ...]) -> bool:
    """Whether all engines, in their newest versions, honour it to the letter."""
    levels = {engine(name).verdict(feature, engine(name).versions[0]).level for name in engines}
    return levels <= {Level.NATIVE, Level.EMULATED, Level.HABIT, Level.DOCUMENTED}


def topology(rng: random.Random, engines: tuple[str, ...]) -> Data:
    """A topology of features that all of these engines claim."""
    pools = {f"p{number}": _pool(rng, engines, f"10.3.{number}") for number in range(3)}
    routes = [
        _route(rng, engines, f"r{number}", match, list(pools))
        for number, match in enumerate(rng.sample(MATCHES, rng.randint(2, 6)))
    ]
    routes.append({"name": "rest", "forward": "p0"})
    listeners = {"web": {"port": 8080, **_more(rng, engines, LISTENER, 0.12)}}
    if rng.random() < 0.15:
        listeners["second"] = {"port": 8081, **_more(rng, engines, LISTENER, 0.12)}
        rng.choice(routes)["listeners"] = ["second"]
    if any("mirror" in route for route in routes):
        pools["shadow"] = {"endpoints": [{"address": "10.4.0.1:8000"}]}
    for kind in ("tcp", "names"):
        if rng.random() < 0.15:
            _layer4(rng, engines, kind, listeners, pools, routes)
    return {
        "version": 1,
        "name": "random",
        "profile": "minimal",
        "timeouts": TIMES,
        "client_timeouts": CLIENT_TIMES,
        "accept": {"all": ["all"]},
        "listeners": listeners,
        "pools": pools,
        "routes": routes,
    }


def _more(rng: random.Random, engines: tuple[str, ...], of: Table, chance: float) -> Data:
    found: Data = {}
    for feature, values in of.items():
        drawn = rng.random() < (chance / 4 if feature in RARE else chance)
        value = copy.deepcopy(rng.choice(values))
        if drawn and claimed(feature, engines) and not found.keys() & value.keys():
            found |= value
    return found


def _pool(rng: random.Random, engines: tuple[str, ...], network: str) -> Data:
    endpoints: list[Data] = [
        {"address": f"{network}.{n + 1}:8000", "weight": rng.choice((1, 1, 2))} for n in range(rng.choice((1, 2, 3)))
    ]
    extra = _more(rng, engines, POOL, 0.1)
    if extra.get("balance") in ("source_hash", "least_connections"):
        endpoints = [{**endpoint, "weight": 1} for endpoint in endpoints]
    if extra.pop("backup", False):
        endpoints.append({"address": f"{network}.9:8000", "backup": True})
    if extra.pop("drain", False):
        endpoints.append({"address": f"{network}.8:8000", "weight": 0})
    return {"endpoints": endpoints, **extra}


def _route(rng: random.Random, engines: tuple[str, ...], name: str, match: Data, pools: list[str]) -> Data:
    route: Data = {"name": name, "match": [copy.deepcopy(match)]}
    host = rng.choice(HOSTS)
    if host is not None:
        route["hosts"] = host
    kind = rng.choice(("forward", "forward", "forward", "split", "redirect", "respond"))
    if kind == "redirect":
        return route | {"redirect": copy.deepcopy(rng.choice(REDIRECTS))}
    if kind == "respond":
        return route | {"respond": {"status": 200, "body": "here\n"}, **_more(rng, engines, ANSWERS, 0.2)}
    pool = rng.choice(pools)
    both = zip(rng.sample(pools, 2), (3, 1), strict=True)
    route["forward"] = pool if kind == "forward" else [{"pool": p, "weight": w} for p, w in both]
    return route | _more(rng, engines, ROUTE, 0.12)


def _layer4(
    rng: random.Random, engines: tuple[str, ...], kind: str, listeners: Data, pools: Data, routes: list[Data]
) -> None:
    """A listener of bytes, with its pools and routes: by source, or by server name."""
    listener: Data = {"port": 9000 if kind == "tcp" else 9443, "mode": "l4", **_more(rng, engines, BYTES, 0.15)}
    extra = _more(rng, engines, BYTES_POOL, 0.3)
    for number in range(2):
        endpoints = [{"address": f"10.{5 if kind == 'tcp' else 6}.{number}.{n}:8000"} for n in (1, 2)]
        pools[f"{kind}{number}"] = {"endpoints": endpoints, **extra}
    ways: tuple[Data, ...] = ({}, {"sources": ["10.7.0.0/16"]})
    if kind == "names":
        listener["tls"] = {"mode": "passthrough"}
        ways = ({"hosts": ["a.test"]}, {"hosts": ["*.a.test"]})
        if rng.random() < 0.4:
            listener["tls"] = {"certificates": copy.deepcopy([SHOP, WILD])}
            ways = ({"hosts": ["shop.example"]}, {"hosts": ["*.wild.example"]})
    asked = ("listener.l4.tcp", "route.sources" if kind == "tcp" else "match.sni")
    asked += ("listener.tls.passthrough" if "mode" in listener.get("tls", {}) else "listener.tls",)
    if not all(claimed(feature, engines) for feature in asked):
        return
    listeners[kind] = listener
    routes += [
        {"name": f"{kind}-{number}", "listeners": [kind], **way, "forward": f"{kind}{number}"}
        for number, way in enumerate(ways)
    ]


def smaller(data: Data) -> Iterator[Data]:
    """The topology without one listener, route, pool or endpoint, or without one thing that one of them says."""

    def without(*path: str | int) -> Data:
        less = copy.deepcopy(data)
        place: Any = less
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
        return less

    for index in range(len(data["routes"])):
        if len(data["routes"]) > 1:
            yield without("routes", index)
    for name in data["listeners"]:
        less = without("listeners", name)
        less["routes"] = [route for route in less["routes"] if route.get("listeners") != [name]]
        yield less
    for name in data["pools"]:
        yield without("pools", name)
    for kind, keep in (
        ("routes", {"name", "forward", "redirect", "respond"}),
        ("pools", {"endpoints"}),
        ("listeners", {"port"}),
    ):
        for item in range(len(data[kind])) if kind == "routes" else list(data[kind]):
            for key in data[kind][item]:
                if key not in keep:
                    yield without(kind, item, key)
    for name, pool in data["pools"].items():
        for index in range(len(pool["endpoints"])):
            yield without("pools", name, "endpoints", index)
