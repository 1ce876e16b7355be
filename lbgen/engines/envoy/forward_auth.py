"""Authentication by a service: Envoy's ext_authz, one filter for each way to ask, and what makes its questions those
that such services know: filters of the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.document import Commented
from lbgen.engines.envoy.forwarded_headers import PEER, build_facts
from lbgen.engines.envoy.mutations import APPEND, build_mutation_filter, escape_format, header_option
from lbgen.engines.envoy.protobuf import ENABLED, duration, extension
from lbgen.engines.envoy.values import format_shared
from lbgen.engines.envoy.view import Cluster, ClusterOptions, Contributor, HttpListener, HttpRoute
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.precedence import group
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_LONGEST = 86_400_000  # ms; Envoy's own time is short, and 0 is none
_FOR = "x-forwarded-for"
_HOST, _LOGIN = "x-lbgen-host", "x-lbgen-login"  # for the filters of the cluster, which remove them
# Every name that does not begin with x-lbgen-: Envoy adds such a header to answers.
_OTHERS = "[^x].*|x|x[^-].*|x-[^l].*|x-l[^b].*"
_WHY = "Asks the service of a route, by a cluster for such requests. Routes enable it; without an answer it refuses."
_CLUSTER_NOTE = "ext_authz sends its requests by this cluster; these filters give them the form that services read."


def _manager(on: HttpListener) -> dict[str, Data]:
    filters = [
        Commented(_WHY, one) if number == 0 else one
        for number, one in enumerate(_build_filter(on, name, auth) for auth, name in _names(on).items())
    ]
    return {"http_filters": filters} if filters else {}


@lru_cache(maxsize=8)  # each route asks
def _names(on: HttpListener) -> dict[ForwardAuth, str]:
    """The filter for each way to ask; further ones of a pool have a number."""
    ways = dict.fromkeys(_way(route.auth) for route in on.routes if isinstance(route.auth, ForwardAuth))
    by_pool = group((auth.pool, auth) for auth in ways)
    return {
        auth: f"auth-{pool}" if number == 1 else f"auth-{pool}/{number}"
        for pool, every in by_pool.items()
        for number, auth in enumerate(every, 1)
    }


def _way(auth: ForwardAuth) -> ForwardAuth:
    return replace(auth, field="")


def _build_filter(on: HttpListener, name: str, auth: ForwardAuth) -> dict[str, Data]:
    cluster = on.clusters.name(auth.pool, ClusterOptions(auth.connect, auth=True))
    both = auth.connect and auth.response
    made = {
        **build_facts(on.listener),
        "x-forwarded-method": "%REQ(:METHOD)%",
        "x-forwarded-uri": "%REQ(:PATH)%",
        _HOST: escape_format(auth.host),
        **({} if auth.redirect_to is None else {_LOGIN: format_shared(on, auth.redirect_to)}),
    }
    sent = [each for each in auth.request_headers if each not in made]
    if _FOR not in made:
        sent.append(_FOR)
    uri: Data = {
        "uri": f"http://{auth.pool}",
        "cluster": cluster,
        "timeout": duration(auth.connect + auth.response if both else _LONGEST),
    }
    fields: dict[str, Data] = {
        "transport_api_version": "V3",
        "status_on_error": {"code": "ServiceUnavailable"},
        "allowed_headers": _names_in(sent),
        # By default Envoy always sends this one.
        **({} if "authorization" in sent else {"disallowed_headers": _names_in(["authorization"])}),
        "http_service": {
            "server_uri": uri,
            "path_override": auth.target,
            "authorization_request": {"headers_to_add": [{"key": key, "value": value} for key, value in made.items()]},
            "authorization_response": {
                **({"allowed_upstream_headers": _names_in(names)} if (names := auth.response_headers) else {}),
                "allowed_client_headers": {"patterns": [{"safe_regex": {"regex": _OTHERS}}]},
            },
        },
    }
    return extension(name, "filters.http.ext_authz.v3.ExtAuthz", fields, disabled=True)


def _names_in(names: Sequence[str]) -> dict[str, Data]:
    return {"patterns": [{"exact": name} for name in names]}


def _route(at: HttpRoute) -> dict[str, Data]:
    auth = at.route.auth
    if not isinstance(auth, ForwardAuth):
        return {}
    return {"typed_per_filter_config": {_names(at.on)[_way(auth)]: ENABLED}}


def _upstream_filters(cluster: Cluster) -> list[Data]:
    if not cluster.options.auth:
        return []
    mutations: list[Data] = [
        {"append": header_option(_FOR, f"%REQ({PEER.upper()})%", APPEND)},  # no effect without a value
        {"remove_on_match": {"key_matcher": {"prefix": "x-lbgen-"}}},
    ]
    script: dict[str, Data] = {"default_source_code": {"inline_string": _read_script()}}
    lua = extension("auth-request", "filters.http.lua.v3.Lua", script)
    return [Commented(_CLUSTER_NOTE, lua), build_mutation_filter("auth-headers", mutations)]


@cache
def _read_script() -> str:
    return (folder("templates") / "envoy" / "auth_request.lua").read_text(encoding="utf-8")


FORWARD_AUTH = Contributor(manager=_manager, route=_route, upstream_filters=_upstream_filters)
