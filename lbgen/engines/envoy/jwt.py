"""Signed tokens: Envoy's filter, with a provider for each way in which routes ask for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented
from lbgen.engines.envoy.basic_auth import challenge
from lbgen.engines.envoy.protobuf import duration, extension, typed
from lbgen.engines.envoy.view import ClusterOptions, Contributor, HttpListener, HttpRoute
from lbgen.plan.auth import JwtAuth, KeysUrl
from lbgen.plan.tokens import SKEW

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FILTER = "jwt"
_KIND = "filters.http.jwt_authn.v3.JwtAuthentication"
_CONNECT, _TIME = 5_000, 5_000  # ms, to read keys
_KEPT = 300_000  # ms for which keys are used before they are read again
_BEARER = "Bearer "
_NOTE = "Only that field: by default Envoy takes tokens from the query too, which logs and pages show."


@lru_cache(maxsize=8)  # each route asks
def _providers(on: HttpListener) -> dict[JwtAuth, str]:
    """The name of each; equal ones of several routes are one."""
    auths = dict.fromkeys(route.auth for route in on.routes if isinstance(route.auth, JwtAuth))
    return {auth: auth.field for auth in auths}


def _manager(on: HttpListener) -> dict[str, Data]:
    providers = _providers(on)
    if not providers:
        return {}
    config: dict[str, Data] = {
        "providers": {name: _provider(on, auth) for auth, name in providers.items()},
        "requirement_map": {name: {"provider_name": name} for name in providers.values()},
    }
    return {"http_filters": [extension(_FILTER, _KIND, config)]}


def _provider(on: HttpListener, auth: JwtAuth) -> dict[str, Data]:
    field: Data = [{"name": "authorization", "value_prefix": _BEARER}]
    found: dict[str, Data] = {
        "issuer": auth.issuer,
        "audiences": list(auth.audiences),
        **_keys(on, auth),
        "from_headers": Commented(_NOTE, field),
        "forward": True,
        "require_expiration": True,
        "clock_skew_seconds": SKEW,
    }
    claims: list[Data] = [{"header_name": header, "claim_name": claim} for header, claim in auth.claims]
    return {**found, "claim_to_headers": claims} if claims else found


def _keys(on: HttpListener, auth: JwtAuth) -> dict[str, Data]:
    keys = auth.keys
    if not isinstance(keys, KeysUrl):
        text = json.dumps({"keys": [json.loads(key.text) for key in keys]}, sort_keys=True)
        return {"local_jwks": {"inline_string": text}}
    pool = on.clusters.pools[keys.pool]
    uri = f"{'http' if pool.tls is None else 'https'}://{keys.host}{keys.target}"
    cluster = on.clusters.name(keys.pool, ClusterOptions(_CONNECT))
    asked: Data = {"uri": uri, "cluster": cluster, "timeout": duration(_TIME)}
    return {"remote_jwks": {"http_uri": asked, "cache_duration": duration(_KEPT), "async_fetch": {}}}


def asked_clusters(auths: Iterator[object]) -> Iterator[tuple[str, ClusterOptions]]:
    """The pools, with their options, from which keys are read."""
    for auth in auths:
        if isinstance(auth, JwtAuth) and isinstance(auth.keys, KeysUrl):
            yield auth.keys.pool, ClusterOptions(_CONNECT)


def _route(at: HttpRoute) -> dict[str, Data]:
    auth = at.route.auth
    if not isinstance(auth, JwtAuth):
        return {}
    name = _providers(at.on)[auth]
    requirement = typed("envoy.extensions.filters.http.jwt_authn.v3.PerRouteConfig", {"requirement_name": name})
    return {**challenge(_BEARER.strip()), "typed_per_filter_config": {_FILTER: requirement}}


JWT = Contributor(manager=_manager, route=_route)
