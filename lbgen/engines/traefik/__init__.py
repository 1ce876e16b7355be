"""Traefik: its own routers, services and middlewares, and a small plugin where a field needs more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

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
from lbgen.engines.traefik import access_log, health_status, run, support
from lbgen.engines.traefik.build import read_dynamic_keys, read_static_keys, render
from lbgen.engines.traefik.health_status import STATUS_PATH
from lbgen.engines.traefik.names import TLS_FILE
from lbgen.engines.traefik.objections import find_objections
from lbgen.engines.traefik.tcp_weights import build_weights_file
from lbgen.engines.verbatim import unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.engines.health import Condition
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


class Traefik:
    """See `lbgen.engines.api.Engine`."""

    name = "traefik"
    title = "Traefik"
    versions: tuple[str, ...] = ("3.7", "3.6")
    binaries: tuple[BinaryHint, ...] = (
        BinaryHint("traefik", package="", version_argv=("version",), version_pattern=r"Version:\s+v?(\d+\.\d+\.\d+)"),
    )
    images = Images({"3.7": "traefik:v3.7.15", "3.6": "traefik:v3.6.15"}, "/usr/local/bin/traefik", ("/bin/mv",))

    status_paths: tuple[str, ...] = (STATUS_PATH,)
    insertion_points: tuple[tuple[str, str], ...] = (
        ("static", "top level of traefik.yaml, a YAML mapping"),
        ("dynamic", "file of its own beside the dynamic ones, a YAML mapping"),
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return support.SUPPORT[version][feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return (*find_objections(plan, version), *self._unreadable(plan, version))

    def _unreadable(self, plan: Plan, version: str) -> Iterable[Objection]:
        """Verbatim texts of the topology that are not valid at their insertion points."""
        if not plan.options(self.name).verbatim:
            return ()
        readers = {"static": partial(read_static_keys, plan, version), "dynamic": partial(read_dynamic_keys, plan)}
        return unreadable(plan, self.name, readers)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        return render(plan, version)

    def set_weights(self, steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
        """The weights of TCP endpoints; see `lbgen.engines.agent_spec.Steered`."""
        return build_weights_file(steering, shares)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return run.build_process_spec(plan, binary)

    def certificate_reload(self, plan: Plan) -> CertificateReload:
        """With the file that names the certificates; see `lbgen.engines.acme_spec.LoadsCertificates`."""
        return CertificateReload(rewritten=(TLS_FILE,))

    def access_record(self, line: str) -> AccessRecord | None:
        return run.parse_record(line)

    def relayed_log(self, plan: Plan) -> str:
        """The access log that the agent writes; see `lbgen.engines.metrics_spec.OneLog`."""
        return access_log.relayed_log(plan)

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return run.build_check_spec(plan, binary)

    def health(
        self, pools: Mapping[str, Sequence[str]], answers: Mapping[str, str]
    ) -> Mapping[tuple[str, int], Condition]:
        """The health of endpoints by Traefik's list of services; see `lbgen.engines.health.Watched`."""
        return health_status.read_health(pools, answers[STATUS_PATH])


ENGINE: Engine = Traefik()
