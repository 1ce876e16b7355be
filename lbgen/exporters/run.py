"""`lbgen.export`: a topology as a folder by which another program runs it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.exporters.parts import Exported, Request

if TYPE_CHECKING:
    from lbgen.spec.load import Topology

TARGETS = ("compose", "swarm", "kubernetes", "systemd", "gateway-api")


def export(
    topology: Topology,
    to: str,
    *,
    engine: str | None = None,
    replicas: Mapping[str, int] | None = None,
    accept: tuple[str, ...] = (),
    namespace: str = "default",
    autoscale: bool = False,
    gateway_class: str = "lbgen",
) -> Exported:
    """The folder by which `to` (one of `TARGETS`) runs `topology`; `write` puts it on disk. The same topology gives the
    same bytes.

    `engine` serves the topology, or its tiers that name none; the Gateway API needs none. `replicas` by tier, "" of a
    topology without tiers. `namespace` and `autoscale` are for Kubernetes, `gateway_class` is for the Gateway API.
    `Exported.findings` say what a target keeps in another way (LB310).

    Raises LbgenError (findings, verdicts, LB311: what the target cannot hold), UsageError LB225 (unknown tier), LB305
    (unknown engine or none), LB409 (unknown target).
    """
    if to not in TARGETS:
        raise UsageError(Diagnostic("LB409", f"there is no target {to!r}", hint=f"one of: {', '.join(TARGETS)}"))
    request = Request(topology, engine, replicas or {}, accept, namespace, autoscale, gateway_class)
    module = import_module(f"lbgen.exporters.{to.replace('-', '_')}")
    found: Exported = module.export(request)
    return found
