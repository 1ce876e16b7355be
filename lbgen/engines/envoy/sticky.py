"""Sticky cookies: a Lua filter that maps an endpoint's id to its address, and Envoy's session filter."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.api import Objection, refused
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.mutations import SET, build_mutation_filter, header_option
from lbgen.engines.envoy.protobuf import ENABLED, extension, typed
from lbgen.engines.envoy.view import Cluster, Contributor, HttpListener, HttpRoute
from lbgen.plan.model import Endpoint, Plan, Pool, Route
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FILTER = "sticky"
_SESSION = "session"
_HEADER = "x-lbgen-endpoint"  # between the two filters; removed before the endpoint
_ANSWERED = "x-lbgen-answered"  # marks a response of an endpoint, not of Envoy; removed before the client


def _sticky_pools(on: HttpListener, routes: Iterable[Route]) -> list[Pool]:
    pools = {pool.name: pool for route in routes for pool in on.clusters.target_pools(route)}
    return [pool for pool in pools.values() if pool.sticky is not None]


def _manager(on: HttpListener) -> dict[str, Data]:
    pools = _sticky_pools(on, on.routes)
    return {"http_filters": [_build_lua(pools), _build_session()]} if pools else {}


def _split(at: HttpRoute) -> Iterator[HttpRoute]:
    """For each target of a split with a sticky cookie the requests that it owns; then the others."""
    forward = at.forward
    if forward is not None and len(forward.targets) > 1:
        for target in forward.targets:
            pool = at.on.clusters.pools[target.pool]
            if pool.sticky is not None:
                ids = "|".join(endpoint.cookie_value for endpoint in pool.endpoints)
                cookie: Data = {"name": pool.sticky.cookie, "string_match": regex(ids)}
                owned = replace(forward, targets=(replace(target, weight=1),))
                yield replace(at, forward=owned, cookies=(*at.cookies, cookie))
    yield at


def _route(at: HttpRoute) -> dict[str, Data]:
    pools = _sticky_pools(at.on, [at.route])
    if not pools:
        return {}
    context: Data = {"pools": [pool.name for pool in pools]}
    lua = typed("envoy.extensions.filters.http.lua.v3.LuaPerRoute", {"filter_context": context})
    return {
        "request_headers_to_remove": [_HEADER],
        "typed_per_filter_config": {_FILTER: lua, _SESSION: ENABLED},
    }


def _cluster(cluster: Cluster) -> dict[str, Data]:
    if cluster.pool.sticky is None:
        return {}
    # A drained endpoint keeps its sticky clients.
    return {"common_lb_config": {"override_host_status": {"statuses": ["UNKNOWN", "HEALTHY", "DEGRADED", "DRAINING"]}}}


def _upstream_filters(cluster: Cluster) -> list[Data]:
    """The filter that marks the responses of endpoints: Envoy's own responses set no cookie."""
    if cluster.pool.sticky is None:
        return []
    return [build_mutation_filter("answered", [{"append": header_option(_ANSWERED, "1", SET)}], "response")]


def _build_lua(pools: Iterable[Pool]) -> dict[str, Data]:
    """The Lua filter, off until a route enables it. Names, ids and addresses need no quoting."""
    code = "".join(line for line in read_template().splitlines(keepends=True) if not line.startswith("---"))
    texts = {"@pools@": "".join(_table(pool) for pool in pools), "@header@": _HEADER, "@answered@": _ANSWERED}
    for place, text in texts.items():
        code = code.replace(place, text)
    config: dict[str, Data] = {"default_source_code": {"inline_string": code}, "clear_route_cache": False}
    return extension(_FILTER, "filters.http.lua.v3.Lua", config, disabled=True)


@cache
def read_template() -> str:
    """The source, whose lines that begin with `---` do not reach the configuration."""
    return (folder("templates") / "envoy" / "sticky.lua").read_text(encoding="utf-8")


def _build_session() -> dict[str, Data]:
    """Sends a request to the endpoint named in the header, and sets the header if it took another endpoint."""
    session: Data = extension(
        "envoy.http.stateful_session.header",
        "http.stateful_session.header.v3.HeaderBasedSessionState",
        {"name": _HEADER},
    )
    return extension(
        _SESSION, "filters.http.stateful_session.v3.StatefulSession", {"session_state": session}, disabled=True
    )


def _table(pool: Pool) -> str:
    if pool.sticky is None:
        raise ValueError(f"{pool.field}: no sticky cookie")
    attributes = "; Path=/; HttpOnly; SameSite=Lax"
    if pool.sticky.ttl is not None:
        attributes += f"; Max-Age={pool.sticky.ttl}"
    if pool.sticky.secure:
        attributes += "; Secure"
    known = [(endpoint.cookie_value, encode_address(endpoint)) for endpoint in pool.endpoints if endpoint.is_ip]
    addresses = "".join(f'      ["{name}"] = "{address}",\n' for name, address in known)
    ids = "".join(f'      ["{address}"] = "{name}",\n' for name, address in known)
    return (
        f'  ["{pool.name}"] = {{\n    cookie = "{pool.sticky.cookie}",\n'
        f'    attributes = "{attributes}",\n'
        f"    addresses = {{\n{addresses}    }},\n    ids = {{\n{ids}    }},\n  }},\n"
    )


def encode_address(endpoint: Endpoint) -> str:
    """The address of an IP endpoint in Envoy's notation, in Base64."""
    host = str(ip_address(endpoint.host))
    written = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
    return b64encode(written.encode()).decode()


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for pool in plan.pools:
        if pool.sticky is not None and not all(endpoint.is_ip for endpoint in pool.endpoints):
            note = "Envoy finds the endpoint of a cookie by its address, and a name has one only at run time"
            yield Objection(refused(note), f"{pool.field}.sticky", "pool.sticky")


STICKY = Contributor(
    manager=_manager,
    split=_split,
    route=_route,
    cluster=_cluster,
    upstream_filters=_upstream_filters,
    objections=_objections,
)
