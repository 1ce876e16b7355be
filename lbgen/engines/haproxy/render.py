"""A plan -> HAProxy's files: haproxy.cfg, lbgen.lua when there are L7 listeners, maps/*, rules for Lua where many."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import FileSystemLoader

from lbgen.engines import text
from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.quote import QUOTES
from lbgen.engines.haproxy.run import CONFIG
from lbgen.engines.haproxy.view import view
from lbgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

    from lbgen.plan.model import Plan

_LUA = "lbgen.lua"


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    shown, beside = view(plan, version)
    config = RenderedFile(CONFIG, *text.render(_templates(), "haproxy.cfg.j2", shown))
    lua = [_lua()] if shown.frontends else []
    return (config, *lua, *beside)


@cache
def _templates() -> Environment:
    return text.environment(FileSystemLoader(folder("templates") / "haproxy"), QUOTES)


@cache
def _lua() -> RenderedFile:
    lua = (folder("templates") / "haproxy" / _LUA).read_text(encoding="utf-8")
    return RenderedFile(_LUA, lua, ("",) * lua.count("\n"))
