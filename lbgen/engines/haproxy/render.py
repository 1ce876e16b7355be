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
from lbgen.engines.verbatim import texts
from lbgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

    from lbgen.plan.model import Plan

_LUA = "lbgen.lua"
_SHARED = "shared.lua"


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    shown, beside = view(plan, version)
    config = RenderedFile(CONFIG, *text.render(_templates(), "haproxy.cfg.j2", shown, texts(plan, "haproxy")))
    lua = [_lua(_LUA)] if shown.frontends else []
    lua += [_lua(_SHARED)] if shown.shares else []
    return (config, *lua, *beside)


@cache
def _templates() -> Environment:
    return text.environment(FileSystemLoader(folder("templates") / "haproxy"), QUOTES)


@cache
def _lua(name: str) -> RenderedFile:
    lua = (folder("templates") / "haproxy" / name).read_text(encoding="utf-8")
    return RenderedFile(name, lua, ("",) * lua.count("\n"))
