"""The nftables engine: TCP and UDP by NAT in the kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import FileSystemLoader
from msgspec import Struct

from lbgen.engines import text
from lbgen.engines.api import Binary, BinaryHint, CheckSpec, Images, Objection, ProcessSpec, RenderedFile, Verdict
from lbgen.engines.nftables import health_checks, run, support, transaction
from lbgen.engines.nftables import objections as plan_objections
from lbgen.engines.nftables.build import build, build_direct, build_replies
from lbgen.engines.nftables.upstreams import is_direct
from lbgen.engines.verbatim import texts
from lbgen.resources import folder

if TYPE_CHECKING:
    from jinja2 import Environment

    from lbgen.engines.api import Counts
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


@cache
def _environment() -> Environment:
    return text.environment(FileSystemLoader(folder("templates") / "nftables"), {})


class Nftables(Struct, frozen=True):
    """See `Engine` and `Incremental` in `lbgen.engines.api`; for `set_weights`, `lbgen.engines.agent_spec.Steered`."""

    name: str = "nftables"
    title: str = "nftables"
    versions: tuple[str, ...] = ("1.0", "1.1")
    binaries: tuple[BinaryHint, ...] = (BinaryHint("nft", version_argv=("--version",)),)
    images: Images = Images({}, "/usr/sbin/nft", ("/bin/sh", "/bin/sleep"))

    change_file: str = transaction.FILE
    counts_argv: tuple[str, ...] = run.COUNTS_ARGV
    insertion_points: tuple[tuple[str, str], ...] = (
        ("table", "end of each of its tables"),
        ("file", "end of the rules"),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return support.SUPPORT[feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return plan_objections.objections(plan, version)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        own = texts(plan, self.name)
        if not is_direct(plan):
            rules = text.render(_environment(), "lbgen.nft.j2", build(plan), own)
            return (RenderedFile(run.FILE, transaction.mark(rules[0]), rules[1]), *health_checks.files(plan))
        rules = text.render(_environment(), "direct.nft.j2", build_direct(plan), own)
        replies = tuple(
            RenderedFile(f"{run.FOLDER}/{x.host.text}.nft", *text.render(_environment(), "replies.nft.j2", x))
            for x in build_replies(plan)
        )
        return (RenderedFile(run.FILE, transaction.mark(rules[0]), rules[1]), *health_checks.files(plan), *replies)

    def set_weights(self, steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
        return health_checks.set_weights(steering, shares)

    def change(self, before: Mapping[str, str], after: Mapping[str, str]) -> str:
        return transaction.change(before, after, run.FILE, health_checks.FILE)

    def leftovers(self, before: Mapping[str, str], after: Mapping[str, str]) -> str:
        return transaction.leftovers(before, after, run.FILE)

    def counts(self, said: str) -> Counts:
        return run.read_counts(said)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return run.process(plan, binary, directory)

    def access_record(self, line: str) -> AccessRecord | None:
        return None  # no requests at L4

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return run.check(plan, binary, directory)


ENGINE = Nftables()
