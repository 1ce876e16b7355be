"""Envoy: renders one envoy.yaml; where lbgen runs it, with files beside it that may change while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.acme_spec import CertificateReload
from lbgen.engines.api import (
    Binary,
    BinaryHint,
    CheckSpec,
    Engine,
    Images,
    Objection,
    ProcessSpec,
    RenderedFile,
    Verdict,
)
from lbgen.engines.envoy.access_log import FILE, parse_record
from lbgen.engines.envoy.build import build, read_bootstrap_keys
from lbgen.engines.envoy.health_status import read_health
from lbgen.engines.envoy.live import plan_stages, read_progress
from lbgen.engines.envoy.objections import find_objections
from lbgen.engines.envoy.run import BINARIES, STATS_PATH, STATUS_PATH, build_check_spec, build_process_spec
from lbgen.engines.envoy.support import TABLES
from lbgen.engines.verbatim import entries, nowhere, unreadable
from lbgen.plan.model import Mode, Plan

if TYPE_CHECKING:
    from lbgen.engines.api import LoadProgress
    from lbgen.engines.health import Condition
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature


class Envoy:
    """See `lbgen.engines.api.Engine`."""

    name = "envoy"
    title = "Envoy"
    versions: tuple[str, ...] = tuple(TABLES)
    binaries: tuple[BinaryHint, ...] = BINARIES
    images = Images(
        {
            "1.40": "envoyproxy/envoy:v1.40.0",
            "1.39": "envoyproxy/envoy:v1.39.3",
            "1.38": "envoyproxy/envoy:v1.38.3",
            "1.37": "envoyproxy/envoy:v1.37.0",
        },
        "/usr/local/bin/envoy",
        ("/bin/sh", "/bin/mv"),
    )

    status_paths: tuple[str, ...] = (STATUS_PATH,)
    progress_paths: tuple[str, ...] = (STATS_PATH, STATUS_PATH)
    insertion_points: tuple[tuple[str, str], ...] = (
        ("bootstrap", "top level of envoy.yaml, a YAML mapping"),
        ("http_filters", "HTTP filters of each L7 listener before the router, a YAML list"),
        ("clusters", "further clusters, a YAML list"),
        ("listeners", "further listeners, a YAML list"),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return TABLES[version][feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return (*find_objections(plan, version), *self._unreadable(plan))

    def _unreadable(self, plan: Plan) -> Iterable[Objection]:
        """Verbatim texts of the topology that are not valid at their insertion points."""
        if not plan.options(self.name).verbatim:
            return ()
        lists = ("http_filters", "clusters", "listeners")
        readers: dict[str, Callable[[], object]] = {x: partial(entries, plan, self.name, x) for x in lists}
        readers["bootstrap"] = partial(read_bootstrap_keys, plan)
        if not any(listener.mode is Mode.L7 for listener in plan.listeners):
            readers["http_filters"] = partial(nowhere, plan, self.name, "http_filters")
        return unreadable(plan, self.name, readers)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        """envoy.yaml; of a plan with an admin port, the resources are in files of their own in live/."""
        return build(plan, version)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        logged = any(listener.access_log for listener in plan.listeners)
        logs = any(listener.logs for listener in plan.listeners)
        # A listener that begins to log while Envoy runs needs no other arguments.
        spec = build_process_spec(binary, directory, plan.admin_port, logs=logs or plan.admin_port is not None)
        agent = plan.metrics is not None or plan.acme is not None
        return replace(spec, access_log=FILE if logged else "", agent=agent)

    def certificate_reload(self, plan: Plan) -> CertificateReload:
        """Envoy watches certificates that it finds by SDS; see `lbgen.engines.acme_spec.LoadsCertificates`."""
        return CertificateReload()

    def access_record(self, line: str) -> AccessRecord | None:
        return parse_record(line)

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return build_check_spec(binary, directory)

    def stages(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Mapping[str, str], ...]:
        """The order in which a running Envoy takes over files; see `lbgen.engines.api.Staged`."""
        return plan_stages(before, after)

    def load_progress(self, stage: Mapping[str, str], answers: Mapping[str, str]) -> LoadProgress:
        """What it has taken over of them; see `lbgen.engines.api.Staged`."""
        return read_progress(stage, answers)

    def health(
        self, pools: Mapping[str, Sequence[str]], answers: Mapping[str, str]
    ) -> Mapping[tuple[str, int], Condition]:
        """The health of endpoints by Envoy's list of clusters; see `lbgen.engines.health.Watched`."""
        return read_health(pools, answers[STATUS_PATH])


ENGINE: Engine = Envoy()
