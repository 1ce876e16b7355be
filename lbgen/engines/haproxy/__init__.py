"""HAProxy: haproxy.cfg, the map files that it routes by, and a Lua file where a field needs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.acme_spec import CertificateReload
from lbgen.engines.api import Images
from lbgen.engines.haproxy import health_status, run
from lbgen.engines.haproxy.access_log import record
from lbgen.engines.haproxy.build import render
from lbgen.engines.haproxy.features import FEATURES
from lbgen.engines.haproxy.support import HABITS, VERSIONS, support

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from lbgen.engines.api import Binary, BinaryHint, CheckSpec, Objection, ProcessSpec, RenderedFile, Verdict
    from lbgen.engines.health import Condition
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


class HAProxy:
    """The HAProxy engine; see `lbgen.engines.api.Engine`."""

    name = "haproxy"
    title = "HAProxy"
    versions: tuple[str, ...] = VERSIONS
    binaries: tuple[BinaryHint, ...] = run.BINARIES
    images = Images(
        {
            "3.2": "haproxy:3.2.26",
            "3.0": "haproxy:3.0.11",
            "2.8": "haproxy:2.8.25",
            "2.6": "haproxy:2.6.12",
        },
        "/usr/local/sbin/haproxy",
        ("/bin/sh",),
    )

    status_paths: tuple[str, ...] = (health_status.STATUS_PATH,)
    insertion_points: tuple[tuple[str, str], ...] = (
        ("global", "end of the global section"),
        ("frontend", "end of the frontend of each L7 listener"),
        ("backend", "end of each backend of an L7 pool"),
        ("file", "end of haproxy.cfg"),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        """How that version honours the feature."""
        return support(version)[feature]

    def habits(self, version: str) -> Mapping[str, str]:
        """What HAProxy does where a clause is left to it."""
        return HABITS

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        """Places that HAProxy cannot serve or serves differently."""
        return (one for each in FEATURES if each.objections for one in each.objections(plan, version))

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        """haproxy.cfg, maps/*, and lbgen.lua where a field needs it."""
        return render(plan, version)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        """How to run the files in `directory`."""
        return run.process(plan, binary)

    def certificate_reload(self, plan: Plan) -> CertificateReload:
        """By the signal of any reload, to the master; see `lbgen.engines.acme_spec.LoadsCertificates`."""
        return CertificateReload("haproxy", run.PID_FILE, "SIGUSR2")

    def access_record(self, line: str) -> AccessRecord | None:
        """The record of a line of HAProxy's output; None for a line that is not of the access log."""
        return record(line)

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        """How to check the files in `directory`."""
        return run.check(plan, binary)

    def health(
        self, pools: Mapping[str, Sequence[str]], answers: Mapping[str, str]
    ) -> Mapping[tuple[str, int], Condition]:
        """Health by HAProxy's statistics; see `lbgen.engines.health.Watched`."""
        return health_status.endpoint_conditions(pools, answers[health_status.STATUS_PATH])


ENGINE = HAProxy()
