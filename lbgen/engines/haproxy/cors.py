"""CORS: a Lua file with the policies of a listener's routes, and the statements that apply them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy.lua_rules import lua_file, lua_set, lua_string
from lbgen.engines.haproxy.statements import Statement, found, is_true, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.engines.api import RenderedFile
    from lbgen.engines.haproxy.per_route import PerRoute
    from lbgen.plan.model import Route
    from lbgen.plan.policy import Cors

_HEADERS = (  # header, variable; the first three on a preflight only
    ("Access-Control-Allow-Methods", "txn.cors_methods"),
    ("Access-Control-Allow-Headers", "txn.cors_headers"),
    ("Access-Control-Max-Age", "txn.cors_age"),
    ("Access-Control-Allow-Origin", "txn.cors_origin"),
    ("Access-Control-Allow-Credentials", "txn.cors_credentials"),
    ("Access-Control-Expose-Headers", "txn.cors_expose"),
)


def policies_file(listener: str, routes: Sequence[tuple[str, Route]]) -> RenderedFile | None:
    """`routes` are (key, route); None when none of them has CORS."""
    rows = [(f"  [{lua_string(key)}] = {_policy(route.cors)},", route.field) for key, route in routes if route.cors]
    if not rows:
        return None
    lines = [("-- CORS by route.", ""), (f"lbgen_cors({lua_string(listener)}, {{", ""), *rows, ("})", "")]
    return lua_file(f"{listener}.cors.lua", lines)


def _policy(cors: Cors) -> str:
    exact, subdomains = [], []
    for origin in cors.origins:
        port = "" if origin.port is None else f":{origin.port}"
        if origin.wildcard:
            subdomains.append(f"{{ {lua_string(f'{origin.scheme}://')}, {lua_string(f'.{origin.host}{port}')} }}")
        elif not origin.any:
            exact.append(f"{origin.scheme}://{origin.host}{port}")
    parts = [
        f"any = {str(any(origin.any for origin in cors.origins)).lower()}",
        f"exact = {lua_set(exact)}",
        f"below = {{ {', '.join(subdomains)} }}",
        f"methods = {lua_set(cors.methods)}",
        f"headers = {lua_set(cors.headers)}",
        f"credentials = {str(cors.credentials).lower()}",
        f"methods_shown = {lua_string(', '.join(cors.methods))}",
    ]
    if cors.headers:
        parts.append(f"headers_shown = {lua_string(', '.join(cors.headers))}")
    if cors.expose_headers:
        parts.append(f"expose = {lua_string(', '.join(cors.expose_headers))}")
    if cors.max_age is not None:
        parts.append(f'age = "{cors.max_age}"')
    return f"{{ {', '.join(parts)} }}"


def policy_statements(listener: str, keys: Sequence[str], per_route: PerRoute) -> list[Statement]:
    """Once the route is set: store what its policy grants to this request."""
    return [per_route.restrict(statement(f"http-request lua.cors {listener}"), keys, "cors")] if keys else []


def preflight_statements(keys: Sequence[str]) -> list[Statement]:
    """Answer preflight requests."""
    return [statement("http-request return status 204", when=[is_true("txn.preflight")])] if keys else []


def response_statements(keys: Sequence[str], per_route: PerRoute) -> list[Statement]:
    """Replace the CORS headers of an endpoint by those of the route's policy."""
    if not keys:
        return []
    rules = "http-after-response"
    removes = statement(f"{rules} del-header access-control- -m beg")
    return [
        per_route.restrict(removes, keys, "cors.own"),
        *(
            statement(f"{rules} set-header {name}", f"%[var({variable})]", when=[found(variable)])
            for name, variable in _HEADERS
        ),
        statement(f"{rules} add-header Vary Origin", when=[is_true("txn.cors_vary")]),
    ]
