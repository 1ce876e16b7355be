"""HAProxy: a plan -> haproxy.cfg, the map files it routes by, and a small Lua file."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import FileSystemLoader

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy import run
from lbgen.engines.haproxy.quote import QUOTES
from lbgen.engines.haproxy.support import VERSIONS, objections, support
from lbgen.engines.haproxy.view import view
from lbgen.engines.text import environment, render
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from jinja2 import Environment

    from lbgen.engines.api import Binary, BinaryHint, CheckSpec, Objection, ProcessSpec, Verdict
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan

_LUA = "lbgen.lua"


class HAProxy:
    """The HAProxy engine; see `lbgen.engines.api.Engine`."""

    name = "haproxy"
    title = "HAProxy"
    versions: tuple[str, ...] = VERSIONS
    binaries: tuple[BinaryHint, ...] = run.BINARIES

    def verdict(self, feature: Feature, version: str) -> Verdict:
        """How that version honours the feature."""
        return support(version)[feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        """Places that HAProxy cannot hold or serves differently."""
        return objections(plan)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        """haproxy.cfg; lbgen.lua when there are L7 listeners; maps/*; rules for Lua where there are many."""
        shown, beside = view(plan, version)
        text, origins = render(_templates(), "haproxy.cfg.j2", shown)
        lua = [_lua()] if shown.frontends else []
        return (RenderedFile(run.CONFIG, text, origins), *lua, *beside)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        """How to run the files in `directory`."""
        return run.process(binary)

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        """How to have them checked."""
        return run.check(binary)


@cache
def _templates() -> Environment:
    return environment(FileSystemLoader(folder("templates") / "haproxy"), QUOTES)


@cache
def _lua() -> RenderedFile:
    text = (folder("templates") / "haproxy" / _LUA).read_text(encoding="utf-8")
    return RenderedFile(_LUA, text, ("",) * text.count("\n"))


ENGINE = HAProxy()
