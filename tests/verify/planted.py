"""Edits of a rendered file as a hand makes them: one field of a topology has another value, or none, in the files."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

Data = dict[str, Any]
LOST = object()  # the field is not in the edited files


@dataclass(frozen=True)
class Planted:
    """`at` is the path of the field in the topology, `value` what the files have of it. `of` are the parts that the
    topology has beside those of `topology_of`."""

    name: str
    at: tuple[Any, ...]
    value: Any
    of: Data = field(default_factory=dict)
    l4: bool = False

    def topology(self) -> Data:
        """The topology that is verified."""
        return topology_of(self.of, l4=self.l4)

    def edited(self) -> Data:
        """The topology whose files are served."""
        data = self.topology()
        place = data
        for key in self.at[:-1]:
            place = place[key]
        if self.value is LOST:
            del place[self.at[-1]]
        else:
            place[self.at[-1]] = copy.deepcopy(self.value)
        return data

    @property
    def field(self) -> str:
        """The start of the field's name in reports."""
        section, name, *rest = (*self.at, "")
        words = [str(each) for each in rest if isinstance(each, str)]
        if len(self.at) == 1:  # of every listener
            return f"listeners.in.{section}"
        if section != "routes":
            return ".".join((section, str(name), *words[:1]))
        return f"routes[r].{words[0]}"


def topology_of(parts: Data, *, l4: bool = False) -> Data:
    """A topology with one route to a pool of two endpoints, another pool, and these further fields of `listener`,
    `pool`, `route` and the topology itself."""
    listener: Data = {"port": 5432, "mode": "l4"} if l4 else {"port": 8080}
    route: Data = {"name": "r", "listeners": ["in"], "forward": "a", "timeouts": {"connect": "1s", "idle": "2s"}}
    if not l4:
        route["timeouts"]["response"] = "2s"
    endpoints = [{"address": f"10.0.0.{number}:80"} for number in (1, 2)]
    kept: Data = {} if l4 else {"connections": {"keepalive_idle": "1s"}}  # which is waited for
    data: Data = {
        "version": 1,
        "name": "planted",
        "profile": "minimal",
        "listeners": {"in": {**listener, **parts.get("listener", {})}},
        "pools": {"a": {"endpoints": endpoints, **kept, **parts.get("pool", {})}},
        "routes": [{**route, **parts.get("route", {})}],
        **{key: value for key, value in parts.items() if key not in ("listener", "pool", "route", "other")},
    }
    if "other" in parts:
        data["pools"]["b"] = {"endpoints": [{"address": "10.0.1.1:80"}], **parts["other"]}
    return copy.deepcopy(data)


def _pool(**fields: Any) -> Data:
    return {"pool": fields}


def _route(**fields: Any) -> Data:
    return {"route": fields}


_CHECK = {"path": "/primary", "interval": "1s", "timeout": "500ms", "fall": 3, "rise": 1}
_BACKUP = [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}, {"address": "10.0.0.3:80", "backup": True}]
_CORS = {"origins": ["https://a.example"], "methods": ["GET", "PUT"], "headers": ["x-a"], "max_age": "1m"}
_TLS = {"certificates": [{"cert": "api.crt", "key": "api.key"}], "min_version": "1.3"}
_MUTUAL = {**_TLS, "client": {"ca": "client-ca.crt"}}
_POOL, _ROUTE, _LISTENER = ("pools", "a"), ("routes", 0), ("listeners", "in")

PLANTED = (
    Planted("another health path", (*_POOL, "health", "active", "path"), "/leader", _pool(health={"active": _CHECK})),
    Planted("another fall", (*_POOL, "health", "active", "fall"), 1, _pool(health={"active": _CHECK})),
    Planted("no health checks", (*_POOL, "health"), LOST, _pool(health={"active": _CHECK})),
    Planted(
        "another health path at layer 4",
        (*_POOL, "health", "active", "path"),
        "/leader",
        _pool(health={"active": _CHECK}),
        l4=True,
    ),
    Planted(
        "a backup that serves",
        (*_POOL, "endpoints", 2, "backup"),
        LOST,
        _pool(endpoints=_BACKUP, health={"active": _CHECK}),
    ),
    Planted(
        "a backup that serves at layer 4",
        (*_POOL, "endpoints", 2, "backup"),
        LOST,
        _pool(endpoints=_BACKUP, health={"active": _CHECK}),
        l4=True,
    ),
    Planted("another balance", (*_POOL, "balance"), "round_robin", _pool(balance="least_connections")),
    Planted("another balance at layer 4", (*_POOL, "balance"), "round_robin", _pool(balance="source_hash"), l4=True),
    Planted(
        "another balance of connections",
        (*_POOL, "balance"),
        "round_robin",
        _pool(balance="least_connections"),
        l4=True,
    ),
    Planted("no hash", (*_POOL, "balance"), "random", _pool(balance={"hash": {"header": "x-user"}})),
    Planted(
        "another weight",
        (*_POOL, "endpoints", 0, "weight"),
        1,
        _pool(endpoints=[{"address": "10.0.0.1:80", "weight": 5}, {"address": "10.0.0.2:80"}]),
    ),
    Planted("another address", (*_POOL, "endpoints", 0, "address"), "10.0.0.9:80"),
    Planted(
        "no passive checks", (*_POOL, "health"), LOST, _pool(health={"passive": {"failures": 3, "eject_for": "2s"}})
    ),
    Planted("no kept connections", (*_POOL, "connections", "keepalive"), 0, _pool(connections={"keepalive": 16})),
    Planted("no sticky cookie", (*_POOL, "sticky"), LOST, _pool(sticky={"cookie": "LB"})),
    Planted("no slow start", (*_POOL, "slow_start"), LOST, _pool(slow_start="10s", health={"active": _CHECK})),
    Planted("another PROXY header", (*_POOL, "proxy_protocol"), "v1", _pool(proxy_protocol="v2"), l4=True),
    Planted(
        "a swapped pool",
        (*_ROUTE, "forward"),
        "b",
        {
            "other": {},
            "routes": [
                {"name": "r", "match": [{"path": {"prefix": "/a"}}], "forward": "a"},
                {"name": "s", "forward": "b"},
            ],
        },
    ),
    Planted(
        "another split",
        (*_ROUTE, "forward", 1, "weight"),
        50,
        {"other": {}, "route": {"forward": [{"pool": "a", "weight": 90}, {"pool": "b", "weight": 10}]}},
    ),
    Planted("no mirror", (*_ROUTE, "mirror"), LOST, {"other": {}, "route": {"mirror": [{"pool": "b"}]}}),
    Planted(
        "a lost request header",
        (*_ROUTE, "request_headers", "set"),
        {},
        _route(request_headers={"set": {"x-env": "p"}}),
    ),
    Planted(
        "a field that is not removed",
        (*_ROUTE, "request_headers"),
        LOST,
        _route(request_headers={"remove": ["x-debug"]}),
    ),
    Planted(
        "a lost response header",
        (*_ROUTE, "response_headers"),
        LOST,
        _route(response_headers={"set": {"x-frame-options": "DENY"}}),
    ),
    Planted(
        "a shorter response time",
        (*_ROUTE, "timeouts", "response"),
        "1s",
        _route(timeouts={"connect": "1s", "response": "2s"}),  # idle is as long
    ),
    Planted("a shorter idle time at layer 4", (*_ROUTE, "timeouts", "idle"), "1s", l4=True),
    Planted("a shorter connect time", (*_ROUTE, "timeouts", "connect"), "500ms"),
    Planted("no retries", (*_ROUTE, "retries"), LOST, _route(retries={"max": 1, "on": ["connect_failure", "reset"]})),
    Planted(
        "no rate limit", (*_ROUTE, "rate_limit"), LOST, _route(rate_limit={"rate": "10/s", "burst": 20, "key": "route"})
    ),
    Planted("no compression", (*_ROUTE, "compression"), LOST, _route(compression={"types": ["text/plain"]})),
    Planted("another origin", (*_ROUTE, "cors", "origins"), ["https://b.example"], _route(cors=_CORS)),
    Planted("another max_age", (*_ROUTE, "cors", "max_age"), "2m", _route(cors=_CORS)),
    Planted("a body that is too long", (*_ROUTE, "max_body"), "2MiB", _route(max_body="100KiB")),
    Planted("an open route", (*_ROUTE, "access"), LOST, _route(access={"allow": ["198.51.100.0/24"]})),
    Planted(
        "another prefix",
        (*_ROUTE, "rewrite", "prefix"),
        "/v2",
        _route(match=[{"path": {"prefix": "/api"}}], rewrite={"prefix": "/v1"}),
    ),
    Planted("another method", (*_ROUTE, "match", 0, "methods"), ["GET", "POST"], _route(match=[{"methods": ["GET"]}])),
    Planted(
        "a lost condition",
        (*_ROUTE, "match", 0, "headers"),
        LOST,
        _route(match=[{"headers": {"x-beta": "1"}, "path": {"prefix": "/b"}}]),
    ),
    Planted(
        "another redirect",
        (*_ROUTE, "redirect", "status"),
        302,
        {
            "routes": [
                {"name": "r", "match": [{"path": {"prefix": "/o"}}], "redirect": {"path": "/n", "status": 301}},
                {"name": "s", "forward": "a"},
            ]
        },
    ),
    Planted("an open listener", (*_LISTENER, "access"), LOST, {"listener": {"access": {"deny": ["203.0.113.0/24"]}}}),
    Planted(
        "an open listener at layer 4",
        (*_LISTENER, "access"),
        LOST,
        {"listener": {"access": {"deny": ["203.0.113.0/24"]}}},
        l4=True,
    ),
    Planted(
        "proxies that are not trusted",
        (*_LISTENER, "trusted_proxies"),
        LOST,
        {"listener": {"trusted_proxies": ["203.0.113.0/24"]}, "forwarded_headers": True},
    ),
    Planted(
        "a shorter time for heads",
        (*_LISTENER, "timeouts", "client_header"),
        "1s",
        {"listener": {"timeouts": {"client_header": "2s", "client_body": "3s"}}},
    ),
    Planted(
        "another number of connections", (*_LISTENER, "max_connections"), 500, {"listener": {"max_connections": 100}}
    ),
    Planted("an older TLS", (*_LISTENER, "tls", "min_version"), "1.2", {"listener": {"tls": _TLS}}),
    Planted("no certificates of clients", (*_LISTENER, "tls", "client"), LOST, {"listener": {"tls": _MUTUAL}}),
    Planted("no request ids", ("request_id",), False, {"request_id": True}),
    Planted("no log", ("access_log",), "none", {"access_log": "json"}),
)
