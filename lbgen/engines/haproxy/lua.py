"""Lua of a configuration: lbgen.lua holds only the functions that its statements call."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.resources import folder

if TYPE_CHECKING:
    from pathlib import Path

OWN = "lbgen.lua"
SHARED = "shared.lua"
_CALL = re.compile(r"\blua\.([a-z_]+)")
# Calls are named after their files, apart from these; helpers stand above the functions that use them.
_FILES = {"drop_nominated_response": "drop_nominated"}
_HELPERS = {
    "choose": ("lines", "cookies", "parameters"),
    "client": ("lines",),
    "cookie": ("lines", "cookies"),
    "cors": ("lines",),
    "join": ("lines",),
    "query_value": ("parameters",),
}
_SHARED_CALLS = ("judged", "take_token")


def own_functions(config: str) -> tuple[str, ...]:
    """The functions of lbgen.lua that a configuration calls, helpers first."""
    calls = {_FILES.get(name, name) for name in _CALL.findall(config)}
    called = sorted(name for name in calls if name not in _SHARED_CALLS and _path(name).is_file())
    helpers = dict.fromkeys(helper for name in called for helper in _HELPERS.get(name, ()))
    return (*helpers, *called)


def own_file(functions: tuple[str, ...]) -> RenderedFile:
    """lbgen.lua with these functions."""
    return _file(OWN, "\n".join(["-- What statements of haproxy.cfg cannot express.\n", *map(_text, functions)]))


@cache
def shared_file() -> RenderedFile:
    """shared.lua: what all threads count together."""
    return _file(SHARED, _text("shared"))


def _file(name: str, text: str) -> RenderedFile:
    return RenderedFile(name, text, ("",) * text.count("\n"))


def _path(name: str) -> Path:
    return folder("templates") / "haproxy" / "lua" / f"{name}.lua"


@cache
def _text(name: str) -> str:
    return _path(name).read_text(encoding="utf-8")
