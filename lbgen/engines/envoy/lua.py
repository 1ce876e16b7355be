"""Lua filters: the sources in templates/envoy, and the Envoy filters that run them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import typed
from lbgen.resources import folder

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_PLACEHOLDER = re.compile(r"@([a-z_]+)@")  # Lua itself has no `@`


def load_lua(name: str, **values: str | int) -> str:
    """The source `<name>.lua` with each `@key@` replaced by `values[key]`, which must not contain text of a user.

    Lines that begin with `---` document the source and do not reach the configuration.
    """
    return _PLACEHOLDER.sub(lambda m: str(values[m[1]]), _read(name))


@cache
def _read(name: str) -> str:
    text = (folder("templates") / "envoy" / f"{name}.lua").read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("---"))


def build_lua_filter(name: str, code: str, *, disabled: bool = False) -> dict[str, Data]:
    """An HTTP filter that runs `code`; a disabled one runs on the routes that enable it."""
    return {
        "name": name,
        "typed_config": typed(
            "envoy.extensions.filters.http.lua.v3.Lua",
            {
                "default_source_code": {"inline_string": code},
                # Envoy chose the route by the request as it arrived.
                "clear_route_cache": False,
            },
        ),
        **({"disabled": True} if disabled else {}),
    }


def build_lua_per_route(context: dict[str, Data]) -> dict[str, Data]:
    """The configuration of a route that enables a Lua filter; the source reads `context` as `filterContext()`."""
    return typed("envoy.extensions.filters.http.lua.v3.LuaPerRoute", {"filter_context": context})
