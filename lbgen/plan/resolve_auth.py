"""Resolves authentication: which auth a route has, users and keys read, services by URL made into pools."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lbgen.plan import resolve_policies
from lbgen.plan.auth import ASKED_WITH, Auth, BasicAuth, ForwardAuth, JwtAuth, KeysUrl, read_keys, read_users
from lbgen.plan.files import plain_name
from lbgen.plan.pool import Balance, Endpoint, Pool
from lbgen.plan.tls import PoolTls
from lbgen.plan.values import read_value

if TYPE_CHECKING:
    from lbgen.spec import auth as written_auth
    from lbgen.spec.auth import ServiceUrl
    from lbgen.spec.load import Topology
    from lbgen.spec.route import Route

_LONGEST_HOST = 40  # in the name of a pool


class Auths:
    """Resolves each auth of a topology once, however many routes have it; `pools` are those of services by URL."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._resolved: dict[str, Auth] = {}
        self._names: dict[tuple[str, str], str] = {}  # scheme and address -> pool
        self._pools: dict[str, Pool] = {}

    def of_route(self, index: int, route: Route) -> Auth | None:
        """The auth of a route, if any. OSError or ValueError of files that were checked before (LB241)."""
        auth = route.auth
        if auth is None:
            return None
        field = f"routes[{index}].auth"
        field = self._topology.marks.origins.get(field, field)
        if field not in self._resolved:
            self._resolved[field] = self._resolve(auth, field)
        return self._resolved[field]

    @property
    def pools(self) -> tuple[Pool, ...]:
        """The pools of what was resolved so far."""
        return tuple(self._pools.values())

    def _resolve(self, auth: written_auth.Auth, field: str) -> Auth:
        base = self._topology.base
        if auth.basic is not None:
            basic, name = auth.basic, PurePosixPath(auth.basic.users).stem
            return BasicAuth(read_users(base / basic.users), basic.realm, plain_name(name), f"{field}.basic")
        if auth.jwt is not None:
            keys = auth.jwt.jwks
            return JwtAuth(
                auth.jwt.issuer,
                tuple(dict.fromkeys(auth.jwt.audience)),
                read_keys(base / keys) if isinstance(keys, str) else self._keys_url(keys, f"{field}.jwt.jwks"),
                tuple(auth.jwt.claims_to_headers.items()),
                f"{field}.jwt",
            )
        if auth.forward is not None:
            return self._forward(auth.forward, f"{field}.forward")
        raise ValueError("`none` resolves to no auth")

    def _forward(self, forward: written_auth.ForwardAuth, field: str) -> ForwardAuth:
        url, times = forward.url, resolve_policies.forward_timeouts(self._topology.model.timeouts)
        asked = ASKED_WITH if forward.request_headers is None else forward.request_headers
        return ForwardAuth(
            pool=forward.pool or "" if url is None else self._pool(url, f"{field}.url"),
            target=forward.path or (url and url.target) or "/",
            host=forward.pool or "" if url is None else _authority(url),
            request_headers=tuple(dict.fromkeys(asked)),
            response_headers=tuple(dict.fromkeys(forward.response_headers)),
            redirect_to=None if forward.redirect_to is None else read_value(forward.redirect_to),
            connect=times.connect,
            response=times.response,
            field=field,
        )

    def _keys_url(self, url: ServiceUrl, field: str) -> KeysUrl:
        return KeysUrl(self._pool(url, field), url.target or "/", _authority(url))

    def _pool(self, url: ServiceUrl, field: str) -> str:
        """The name of the pool for the service at `url`, which is made at first use."""
        key = (url.scheme, str(url.address))
        if key not in self._names:
            host, port = url.address.host.replace(":", "-").strip("-"), url.address.port
            name = base = f"{host[:_LONGEST_HOST].rstrip('.-_')}-{port}"
            number = 1
            while name in self._topology.model.pools or name in self._pools:
                number += 1
                name = f"{base}-{number}"
            endpoint = Endpoint(url.address.host, port, 1, field, url.address.is_ip)
            tls = PoolTls() if url.scheme == "https" else None
            self._names[key] = name
            self._pools[name] = Pool(name, Balance("round_robin"), (endpoint,), field, tls=tls)
        return self._names[key]


def _authority(url: ServiceUrl) -> str:
    return str(url).removesuffix(url.target).partition("://")[2]
