"""Pools as services, and how their endpoints are connected to as serversTransports."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.document import Tagged
from lbgen.engines.traefik.names import MARK
from lbgen.engines.traefik.plugin import use_plugin
from lbgen.engines.traefik.timeouts import duration
from lbgen.plan.model import Balance, PoolProtocol
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.traefik.middlewares import Middlewares
    from lbgen.plan.model import Endpoint, Forward, Plan, Pool, Route, Target, Timeouts
    from lbgen.plan.policy import ActiveHealth, PassiveHealth, Sticky

_STRATEGIES = {
    Balance.LEAST_CONNECTIONS: "p2c",
    Balance.RANDOM: "p2c",
    Balance.SOURCE_HASH: "hrw",
    Balance.HASH: "hrw",
}


class _Balancer(Struct, frozen=True):
    """A service of a pool: pool, transport (its contents as JSON), middlewares of its own, whether of its backups."""

    pool: str
    transport: str
    middlewares: tuple[str, ...]
    backups: bool = False


class Services:
    """The services that routes use; the same pool with the same times is one service."""

    def __init__(self, plan: Plan, middlewares: Middlewares) -> None:
        self._plan = plan
        self._middlewares = middlewares
        self._balancers: dict[_Balancer, str] = {}
        self._combined: dict[str, Tagged] = {}
        self._transports: dict[str, str] = {}  # contents -> route or pool that names it
        self._taken: set[str] = set()

    def of(self, route: Route, forward: Forward) -> str:
        """The name of the service of a route."""
        targets = [target for target in forward.targets if target.weight]
        if len(targets) == 1:
            service = self._target(route, targets[0], forward)
        else:
            service = f"{route.name}{MARK}split"
            shares: Data = [
                {"name": self._target(route, target, forward), "weight": target.weight} for target in targets
            ]
            self._combined[service] = Tagged(route.field, {"weighted": {"services": shares}})
        if forward.mirrors:
            copies: Data = [
                {"name": self._balancer(route, mirror.pool, forward.timeouts, ()), "percent": round(mirror.percent)}
                for mirror in forward.mirrors
            ]
            data: dict[str, Data] = {"mirroring": {"service": service, "mirrors": copies}}
            service = f"{route.name}{MARK}mirror"
            self._combined[service] = Tagged(route.field, data)
        return service

    def _target(self, route: Route, target: Target, forward: Forward) -> str:
        own = self._middlewares.edits(route.name, target.request_headers, kind=f"{target.pool}-headers")
        return self._balancer(route, target.pool, forward.timeouts, own)

    def _balancer(self, route: Route, name: str, times: Timeouts, middlewares: tuple[str, ...]) -> str:
        """The service of a pool; where it has backups, the one that chooses between them and the others."""
        pool = self._plan.pool(name)
        if (key := pool.hash_key) is not None and key.kind is not KeyKind.CLIENT_IP:
            middlewares += self._middlewares.use(name, "key", use_plugin("hashBy", {str(key.kind): key.name}))
        transport = json.dumps(_transport(pool, times))
        self._transports.setdefault(transport, pool.name if pool.tls is not None else route.name)
        main = self._name_balancer(route, _Balancer(name, transport, middlewares))
        if not any(endpoint.backup and endpoint.weight for endpoint in pool.endpoints):
            return main
        backups = self._name_balancer(route, _Balancer(name, transport, middlewares, backups=True))
        service = f"{main}{MARK}failover"
        self._combined[service] = Tagged(pool.field, {"failover": {"service": main, "fallback": backups}})
        return service

    def _name_balancer(self, route: Route, wanted: _Balancer) -> str:
        if wanted not in self._balancers:
            name = f"{wanted.pool}{MARK}backup" if wanted.backups else wanted.pool
            chosen, number = name, 1
            while chosen in self._taken:
                chosen = f"{name}{MARK}{route.name}" if number == 1 else f"{name}{MARK}{route.name}{MARK}{number}"
                number += 1
            self._taken.add(chosen)
            self._balancers[wanted] = chosen
        return self._balancers[wanted]

    def build(self) -> dict[str, Data]:
        """The `services` section."""
        transports = self._transport_names()
        services: dict[str, Data] = {}
        for wanted, name in self._balancers.items():
            pool = self._plan.pool(wanted.pool)
            balancer = _load_balancer(pool, transports[wanted.transport], backups=wanted.backups)
            data: dict[str, Data] = {"loadBalancer": balancer}
            if wanted.middlewares:
                data["middlewares"] = self._middlewares.names(wanted.middlewares)
            services[name] = Tagged(pool.field, data)
        return services | self._combined

    def build_transports(self) -> dict[str, Data]:
        """The `serversTransports` section."""
        return {name: json.loads(contents) for contents, name in self._transport_names().items()}

    def _transport_names(self) -> dict[str, str]:
        """Most services share one, which is called default."""
        uses = Counter(wanted.transport for wanted in self._balancers)
        most = max(uses, key=lambda each: uses[each], default="")
        names: dict[str, str] = {}
        for contents, name in self._transports.items():
            chosen, number = "default" if contents == most else name, 2
            while chosen in names.values() or (chosen == "default" and contents != most):
                chosen, number = f"{name}{MARK}{number}", number + 1
            names[contents] = chosen
        return names


def _load_balancer(pool: Pool, transport: str, *, backups: bool) -> dict[str, Data]:
    serving = [endpoint for endpoint in pool.endpoints if endpoint.weight and endpoint.backup is backups]
    weighted = len({endpoint.weight for endpoint in serving}) > 1
    data: dict[str, Data] = {}
    if pool.balance in _STRATEGIES and len(serving) > 1:
        data["strategy"] = _STRATEGIES[pool.balance]
    if pool.sticky is not None:
        data["sticky"] = {"cookie": _cookie(pool.sticky)}
    if pool.active is not None:
        data["healthCheck"] = _active(pool.active)
    if pool.passive is not None:
        data["passiveHealthCheck"] = _passive(pool.passive)
    data["serversTransport"] = transport
    # The hash of hrw hardly mixes in the last characters of a URL, by which endpoints differ. A path is not sent.
    suffix = "/spread" if data.get("strategy") == "hrw" else ""
    data["servers"] = [_server(pool, endpoint, suffix, weighted=weighted) for endpoint in serving]
    return data


def _server(pool: Pool, endpoint: Endpoint, suffix: str, *, weighted: bool) -> Tagged:
    plain = "http" if pool.protocol is PoolProtocol.HTTP1 else "h2c"
    scheme = "https" if pool.tls is not None else plain
    data: dict[str, Data] = {"url": f"{scheme}://{endpoint.authority}{suffix}"}
    if endpoint.weight != 1 and weighted:
        data["weight"] = endpoint.weight
    return Tagged(endpoint.field, data)


def _cookie(sticky: Sticky) -> dict[str, Data]:
    data: dict[str, Data] = {"name": sticky.cookie, "path": "/", "httpOnly": True, "sameSite": "lax"}
    if sticky.secure:
        data["secure"] = True
    if sticky.ttl is not None:
        data["maxAge"] = sticky.ttl
    return data


def _active(active: ActiveHealth) -> dict[str, Data]:
    data: dict[str, Data] = {
        "path": active.path or "/",
        "interval": duration(active.interval),
        "timeout": duration(active.timeout),
        "followRedirects": False,
    }
    if active.port is not None:
        data["port"] = active.port
    if len(active.statuses) == 1 and active.statuses[0][0] == active.statuses[0][1]:
        data["status"] = active.statuses[0][0]
    return data


def _passive(passive: PassiveHealth) -> dict[str, Data]:
    return {"failureWindow": duration(passive.eject_for), "maxFailedAttempts": passive.failures}


def _transport(pool: Pool, times: Timeouts) -> dict[str, Data]:
    """0 means no limit for each of the times."""
    data: dict[str, Data] = {}
    if pool.tls is not None:
        tls = pool.tls
        data["serverName"] = tls.server_name or pool.endpoints[0].host
        if not tls.verify:
            data["insecureSkipVerify"] = True
        if tls.ca is not None:
            data["rootCAs"] = [tls.ca.path]
        if tls.certificate is not None:
            data["certificates"] = [{"certFile": tls.certificate.cert.path, "keyFile": tls.certificate.key.path}]
        if pool.protocol is PoolProtocol.HTTP1:
            data["disableHTTP2"] = True
    data["maxIdleConnsPerHost"] = pool.keepalive or -1
    data["forwardingTimeouts"] = {
        "dialTimeout": duration(times.connect),
        "responseHeaderTimeout": duration(times.response),
        "idleConnTimeout": duration(pool.keepalive_idle),
    }
    return data
