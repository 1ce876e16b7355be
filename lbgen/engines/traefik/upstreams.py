"""Pools as services, and how their endpoints are connected to as serversTransports."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.document import Tagged
from lbgen.engines.traefik.balancing import build_hash_key
from lbgen.engines.traefik.features import FEATURES
from lbgen.engines.traefik.headers import build_edits
from lbgen.engines.traefik.middlewares import Middlewares
from lbgen.engines.traefik.names import MARK
from lbgen.engines.traefik.timeouts import duration
from lbgen.engines.traefik.values import build_values
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.model import Endpoint, Forward, Listener, Plan, Pool, PoolProtocol, Route, Target, Timeouts
from lbgen.plan.path_conditions import Path

if TYPE_CHECKING:
    from lbgen.engines.document import Data


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
        self._splits: dict[str, list[list[tuple[str, int]]]] = {}
        self._transports: dict[str, str] = {}  # contents -> route or pool that names it
        self._taken: set[str] = set()

    def of(self, route: Route, forward: Forward, matched: Path, listener: Listener) -> str:
        """The name of the service of a route on a listener, for requests of a path."""
        targets = [target for target in forward.targets if target.weight]
        if len(targets) == 1:
            service = self._target(route, targets[0], forward, matched, listener)
        else:
            chosen = [(self._target(route, each, forward, matched, listener), each.weight) for each in targets]
            service = self._name_split(route, chosen)
            shares: Data = [{"name": name, "weight": weight} for name, weight in chosen]
            self._combined[service] = Tagged(route.field, {"weighted": {"services": shares}})
        if forward.mirrors:
            copies: Data = [
                {
                    "name": self._balancer(route.name, mirror.pool, forward.timeouts, ()),
                    "percent": round(mirror.percent),
                }
                for mirror in forward.mirrors
            ]
            data: dict[str, Data] = {"mirroring": {"service": service, "mirrors": copies}}
            service = f"{route.name}{MARK}mirror"
            self._combined[service] = Tagged(route.field, data)
        return service

    def _name_split(self, route: Route, shares: list[tuple[str, int]]) -> str:
        """A route has one split, unless the headers of its shares differ by path or listener."""
        known = self._splits.setdefault(route.name, [])
        if shares not in known:
            known.append(shares)
        number = known.index(shares) + 1
        return f"{route.name}{MARK}split{f'{MARK}{number}' if number > 1 else ''}"

    def _target(self, route: Route, target: Target, forward: Forward, matched: Path, listener: Listener) -> str:
        edits = target.request_headers
        dynamic = edits.is_dynamic
        data = build_values(matched, route.name, listener, edits, None) if dynamic else build_edits(edits)
        own = self._middlewares.use(route.name, f"{target.pool}-headers", data)
        return self._balancer(route.name, target.pool, forward.timeouts, own)

    def asked(self, auth: ForwardAuth, name: str) -> str:
        """The name of the service that is asked about requests."""
        return self._balancer(name, auth.pool, Timeouts(auth.connect, auth.response), ())

    def _balancer(self, user: str, name: str, times: Timeouts, middlewares: tuple[str, ...]) -> str:
        """The service of a pool; where it has backups, the one that chooses between them and the others. `user` is the
        route, or what else uses the pool."""
        pool = self._plan.pool(name)
        middlewares += self._middlewares.use(name, "key", build_hash_key(pool))
        transport = json.dumps(_transport(pool, times))
        self._transports.setdefault(transport, pool.name if pool.tls is not None else user)
        main = self._name_balancer(user, _Balancer(name, transport, middlewares))
        if not any(endpoint.backup and endpoint.weight for endpoint in pool.endpoints):
            return main
        backups = self._name_balancer(user, _Balancer(name, transport, middlewares, backups=True))
        service = f"{main}{MARK}failover"
        self._combined[service] = Tagged(pool.field, {"failover": {"service": main, "fallback": backups}})
        return service

    def _name_balancer(self, user: str, wanted: _Balancer) -> str:
        if wanted not in self._balancers:
            name = f"{wanted.pool}{MARK}backup" if wanted.backups else wanted.pool
            chosen, number = name, 1
            while chosen in self._taken:
                chosen = f"{name}{MARK}{user}" if number == 1 else f"{name}{MARK}{user}{MARK}{number}"
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
    for each in FEATURES:
        if each.balancer:
            data |= each.balancer(pool, serving)
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
