"""Sticky cookies: a Lua filter that maps an endpoint's id to its address, and Envoy's session filter."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING

from lbgen.engines.envoy.headers import SET, build_mutation_filter, header_option
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.document import Data
    from lbgen.plan.model import Endpoint, Forward, Pool, Target

FILTER = "sticky"
SESSION = "session"
_HEADER = "x-lbgen-endpoint"  # between the two filters; removed before the endpoint
_ANSWERED = "x-lbgen-answered"  # marks a response of an endpoint, not of Envoy; removed before the client


def match_owners(forward: Forward, pools: dict[str, Pool]) -> Iterator[tuple[Target, dict[str, Data]]]:
    """The targets of a split with a sticky cookie, each with the cookie match of requests that it owns."""
    if len(forward.targets) == 1:
        return
    for target in forward.targets:
        sticky = pools[target.pool].sticky
        if sticky is not None:
            ids = "|".join(endpoint.cookie_value for endpoint in pools[target.pool].endpoints)
            yield target, {"name": sticky.cookie, "string_match": regex(ids)}


def build_sticky_filter(pools: Iterable[Pool]) -> dict[str, Data]:
    """The Lua filter, off until a route enables it. Names, ids and addresses need no quoting."""
    code = "".join(line for line in read_template().splitlines(keepends=True) if not line.startswith("---"))
    texts = {"@pools@": "".join(_table(pool) for pool in pools), "@header@": _HEADER, "@answered@": _ANSWERED}
    for place, text in texts.items():
        code = code.replace(place, text)
    config: dict[str, Data] = {"default_source_code": {"inline_string": code}, "clear_route_cache": False}
    return extension(FILTER, "filters.http.lua.v3.Lua", config, disabled=True)


@cache
def read_template() -> str:
    """The source, whose lines that begin with `---` do not reach the configuration."""
    return (folder("templates") / "envoy" / "sticky.lua").read_text(encoding="utf-8")


def build_sticky_config(names: Iterable[str]) -> dict[str, Data]:
    """The configuration of a route that enables the Lua filter for the pools of these names."""
    return typed("envoy.extensions.filters.http.lua.v3.LuaPerRoute", {"filter_context": {"pools": list(names)}})


def build_session_filter() -> dict[str, Data]:
    """Sends a request to the endpoint named in the header, and sets the header if it took another endpoint."""
    session: Data = extension(
        "envoy.http.stateful_session.header",
        "http.stateful_session.header.v3.HeaderBasedSessionState",
        {"name": _HEADER},
    )
    return extension(
        SESSION, "filters.http.stateful_session.v3.StatefulSession", {"session_state": session}, disabled=True
    )


def build_answered_filter() -> dict[str, Data]:
    """A filter of a cluster that marks the responses of endpoints: Envoy's own responses set no cookie."""
    return build_mutation_filter("answered", [{"append": header_option(_ANSWERED, "1", SET)}], "response")


# Headers that a route removes before it forwards a request.
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
        f'  ["{pool.name}"] = {{\n    cookie = "{pool.sticky.cookie}",\n'
        f'    attributes = "{attributes}",\n'
        f"    addresses = {{\n{addresses}    }},\n    ids = {{\n{ids}    }},\n  }},\n"
    )


def encode_address(endpoint: Endpoint) -> str:
    """The address of an IP endpoint in Envoy's notation, in Base64."""
    host = str(ip_address(endpoint.host))
    written = f"[{host}]:{endpoint.port}" if ":" in host else f"{host}:{endpoint.port}"
    return b64encode(written.encode()).decode()
