"""CORS of a listener's routes -> a Lua file with the policies, and the statements that ask it and show its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.lua_rules import text
from lbgen.engines.haproxy.statements import Line, line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lbgen.engines.haproxy.per_route import Chooser
    from lbgen.plan.model import Route
    from lbgen.plan.policy import Cors

_ANSWERS = (  # header, variable; the first three on a preflight only
    ("Access-Control-Allow-Methods", "txn.cors_methods"),
    ("Access-Control-Allow-Headers", "txn.cors_headers"),
    ("Access-Control-Max-Age", "txn.cors_age"),
    ("Access-Control-Allow-Origin", "txn.cors_origin"),
    ("Access-Control-Allow-Credentials", "txn.cors_credentials"),
    ("Access-Control-Expose-Headers", "txn.cors_expose"),
)


def policies_file(listener: str, routes: Sequence[tuple[str, Route]]) -> RenderedFile | None:
    """`routes` are (key, route); None when none of them has CORS."""
    rows = [(f"  [{text(key)}] = {_policy(route.cors)},", route.field) for key, route in routes if route.cors]
    if not rows:
        return None
    lines = [("-- CORS by route.", ""), (f"lbgen_cors({text(listener)}, {{", ""), *rows, ("})", "")]
    return RenderedFile(f"{listener}.cors.lua", "".join(f"{row}\n" for row, _ in lines), tuple(o for _, o in lines))


def _policy(cors: Cors) -> str:
    exact, below = [], []
    for origin in cors.origins:
        port = "" if origin.port is None else f":{origin.port}"
        if origin.wildcard:
            below.append(f"{{ {text(f'{origin.scheme}://')}, {text(f'.{origin.host}{port}')} }}")
        elif not origin.any:
            exact.append(f"{origin.scheme}://{origin.host}{port}")
    parts = [
        f"any = {str(any(origin.any for origin in cors.origins)).lower()}",
        f"exact = {_set(exact)}",
        f"below = {{ {', '.join(below)} }}",
        f"methods = {_set(cors.methods)}",
        f"headers = {_set(cors.headers)}",
        f"credentials = {str(cors.credentials).lower()}",
        f"methods_shown = {text(', '.join(cors.methods))}",
    ]
    if cors.headers:
        parts.append(f"headers_shown = {text(', '.join(cors.headers))}")
    if cors.expose_headers:
        parts.append(f"expose = {text(', '.join(cors.expose_headers))}")
    if cors.max_age is not None:
        parts.append(f'age = "{cors.max_age}"')
    return f"{{ {', '.join(parts)} }}"


def _set(values: Iterable[str]) -> str:
    return f"{{ {', '.join(f'[{text(value)}] = true' for value in values)} }}"


def asked_lines(listener: str, keys: Sequence[str], chooser: Chooser) -> list[Line]:
    """Once the route is known: what its policy says to this request."""
    return [chooser.only((f"http-request lua.cors {listener}",), keys, "cors")] if keys else []


def preflight_lines(keys: Sequence[str]) -> list[Line]:
    """A preflight is answered here."""
    return [line("", "http-request return status 204 if { var(txn.preflight) -m bool }")] if keys else []


def answer_lines(keys: Sequence[str], chooser: Chooser) -> list[Line]:
    """What every answer of those routes shows; what the endpoint says about CORS does not count."""
    if not keys:
        return []
    return [
        chooser.only(("http-after-response del-header access-control- -m beg",), keys, "cors.own"),
        *(
            line("", f"http-after-response set-header {name} %[var({variable})] if {{ var({variable}) -m found }}")
            for name, variable in _ANSWERS
        ),
        line("", "http-after-response add-header Vary Origin if { var(txn.cors_vary) -m bool }"),
    ]
