"""Sticky cookies -> a filter that turns an endpoint's id into its address, and Envoy's session filter."""

from __future__ import annotations

from base64 import b64encode
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.engines.envoy.headers import SET, header_option
from lbgen.engines.envoy.lua import build_lua_filter, build_lua_per_route, load_lua
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.typed_config import extension
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Pool, Route, Target

FILTER = "sticky"
SESSION = "session"
_HEADER = "x-lbgen-endpoint"  # between the two filters; never leaves Envoy
_ANSWERED = "x-lbgen-answered"  # an endpoint did, not Envoy in its place; never leaves Envoy


def find_sticky_pools(route: Route, pools: dict[str, Pool]) -> list[Pool]:
    """The pools of a route that have a sticky cookie, each once."""
    if not isinstance(route.action, Forward):
        return []
    named = dict.fromkeys(target.pool for target in route.action.targets)
    return [pools[name] for name in named if pools[name].sticky is not None]


def match_owners(forward: Forward, pools: dict[str, Pool]) -> Iterator[tuple[Target, dict[str, Data]]]:
    """The targets of a split that own the request's cookie, each with the cookie that shows it."""
    if len(forward.targets) == 1:
        return
    for target in forward.targets:
        sticky = pools[target.pool].sticky
        if sticky is not None:
            ids = "|".join(endpoint.cookie_value for endpoint in pools[target.pool].endpoints)
            yield target, {"name": sticky.cookie, "string_match": regex(ids)}


def build_sticky_filter(pools: Iterable[Pool]) -> dict[str, Data]:
    """The Lua filter, off until a route switches it on. Names, ids and addresses are plain words."""
    tables = "".join(_table(pool) for pool in pools)
    code = load_lua("sticky", pools=tables, header=_HEADER, answered=_ANSWERED)
    return build_lua_filter(FILTER, code, disabled=True)


def build_session_filter() -> dict[str, Data]:
    """Sends a request to the endpoint that a filter before it named, and names the one that was taken instead."""
    session: Data = extension(
        "envoy.http.stateful_session.header",
        "http.stateful_session.header.v3.HeaderBasedSessionState",
        {"name": _HEADER},
    )
    return extension(
        SESSION, "filters.http.stateful_session.v3.StatefulSession", {"session_state": session}, disabled=True
    )


def build_answered_filter() -> dict[str, Data]:
    """A filter of a cluster that marks what its endpoints answer: Envoy's own answers have no cookie."""
    mark: Data = {"append": header_option(_ANSWERED, "1", SET)}
    return extension(
        "answered", "filters.http.header_mutation.v3.HeaderMutation", {"mutations": {"response_mutations": [mark]}}
    )


def build_sticky_per_route(pools: list[Pool]) -> dict[str, Data]:
    """What a route says to the Lua filter."""
    return build_lua_per_route({"pools": [pool.name for pool in pools]})


# What a route takes off a request before it goes on.
REMOVED_HEADERS = (_HEADER,)


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
        f'  ["{pool.name}"] = {{\n    cookie = "{pool.sticky.cookie}",\n    attributes = "{attributes}",\n'
        f"    addresses = {{\n{addresses}    }},\n    ids = {{\n{ids}    }},\n  }},\n"
    )


def encode_address(endpoint: Endpoint) -> str:
    """An IP endpoint as Envoy writes its address, in Base64."""
    host = str(ip_address(endpoint.host))
    written = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
    return b64encode(written.encode()).decode()
