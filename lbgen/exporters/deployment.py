"""What an orchestrator is asked to run: the export of a topology, with the services in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lbgen.exporters.parts import Part
from lbgen.exporters.run import export
from lbgen.plan.tiers import parts as tiers_of
from lbgen.runtime.common.state import Address, scheme
from lbgen.runtime.orchestrators.model import Deployment, Record, Service
from lbgen.runtime.orchestrators.names import label

if TYPE_CHECKING:
    from lbgen.spec.load import Topology


def deployment(
    topology: Topology,
    runtime: str,
    engine: str | None,
    replicas: Mapping[str, int],
    accept: tuple[str, ...],
    namespace: str,
) -> Deployment:
    """The folder of `lbgen export --to RUNTIME` and what is in it. Raises as `lbgen.export` does."""
    namespace = namespace or ("default" if runtime == "kubernetes" else "")
    found = export(topology, runtime, engine=engine, replicas=replicas, accept=accept, namespace=namespace)
    services = tuple(map(_service, found.parts))
    record = Record(topology.name, runtime, services, "", namespace, engine, replicas, accept)
    counts = {x.tier: replicas[x.tier] for x in found.parts if x.tier in replicas and not x.entry}
    return Deployment(record, found.rendered, tiers_of(topology, counts), found.findings)


def _service(part: Part) -> Service:
    addresses = tuple(Address(x.name, str(x.mode), "", x.port, scheme(x)) for x in part.plan.listeners)
    engine = part.engine
    name = part.tier or engine.name
    return Service(label(part.name), name, engine.name, engine.title, part.version, part.entry, addresses)
