"""The keepalived engine: TCP and UDP by IPVS in the kernel, with keepalived's health checks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import FileSystemLoader
from msgspec import Struct

from lbgen.engines import text
from lbgen.engines.api import (
    Binary,
    BinaryHint,
    CheckSpec,
    Images,
    KernelNeed,
    Objection,
    ProcessSpec,
    RenderedFile,
    Verdict,
)
from lbgen.engines.keepalived import objections as plan_objections
from lbgen.engines.keepalived import run, support
from lbgen.engines.keepalived.build import build, build_endpoints, build_floating, quote
from lbgen.engines.keepalived.upstreams import VRRP
from lbgen.engines.verbatim import texts
from lbgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


@cache
def _environment() -> Environment:
    return text.environment(FileSystemLoader(folder("templates") / "keepalived"), {"word": quote})


class Keepalived(Struct, frozen=True):
    """See `lbgen.engines.api.Engine` and, for `kernel_needs`, `lbgen.engines.api.NeedsKernel`; for `floating`,
    `lbgen.engines.api.FloatsAddresses`."""

    name: str = "keepalived"
    title: str = "keepalived"
    versions: tuple[str, ...] = ("2.2",)
    binaries: tuple[BinaryHint, ...] = (BinaryHint("keepalived", version_argv=("--version",)),)
    images: Images = Images({}, "/usr/sbin/keepalived", ("/bin/sh", "/bin/ip", "/usr/sbin/nft", "/sbin/sysctl"))
    kernel_needs: tuple[KernelNeed, ...] = (KernelNeed("/proc/net/ip_vs", "IPVS", "modprobe ip_vs"),)
    loopback_clients: bool = False
    floating_place: str = VRRP

    insertion_points: tuple[tuple[str, str], ...] = (
        ("global_defs", "end of the block `global_defs`"),
        (VRRP, "inside the VRRP instance, which is there with this text; it needs `interface NAME`"),
        ("file", "end of keepalived.conf"),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return support.SUPPORT[feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return plan_objections.objections(plan)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        view = build(plan)
        config = text.render(_environment(), "keepalived.conf.j2", view, texts(plan, self.name))
        if view.direct:
            hosts = ((x.host.text, text.render(_environment(), "endpoint.sh.j2", x)) for x in build_endpoints(plan))
            scripts = tuple(RenderedFile(f"{run.FOLDER}/{host}.sh", *script) for host, script in hosts)
            return (RenderedFile(run.FILE, *config), *scripts)
        marks = text.render(_environment(), "marks.nft.j2", view)
        return (RenderedFile(run.FILE, *config), RenderedFile(run.MARKS, *marks))

    def floating(self, plan: Plan) -> RenderedFile | None:
        """What announces a plan's addresses on the machine that has them, whatever engine serves there; None unless the
        topology has text for VRRP, and a listener with an address."""
        view = build_floating(plan)
        if view is None:
            return None
        own = texts(plan, self.name)
        return RenderedFile(run.FILE, *text.render(_environment(), "keepalived.conf.j2", view, own))

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return run.process(plan, binary, directory)

    def access_record(self, line: str) -> AccessRecord | None:
        return None  # no requests at L4

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return run.check(plan, binary, directory)


ENGINE = Keepalived()
