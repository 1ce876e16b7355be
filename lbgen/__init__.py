"""Write a load balancer topology once; run it on nginx, HAProxy, Envoy, Traefik or nftables, and have proof.

    topology = lbgen.load("shop.yaml")
    plan = lbgen.plan(topology)
    lbgen.config(topology)  # as YAML, each value with its origin
    lbgen.check(topology), lbgen.explain(plan, "nginx"), lbgen.diff(topology, lbgen.load("changed.yaml"))
    lbgen.render(topology, engine="nginx").write("out")
    lbgen.export(topology, "kubernetes", engine="haproxy").write("deploy")
    lbgen.simulate(plan, lbgen.Request(target="/api", headers=(("Host", "shop.example"),)))
    with lbgen.up(topology, engine="haproxy") as stack:
        stack.url("web")
    assert lbgen.verify(topology).green
    lbgen.bench(topology).rows

Every error raised on purpose is a `LbgenError` with `Diagnostic`s. Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.api import Stack, preview, reload, up
    from lbgen.bench.run import bench
    from lbgen.conformance.topology_diff import diff
    from lbgen.conformance.verify.report import Report
    from lbgen.conformance.verify.run import verify
    from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity, Span, UsageError
    from lbgen.engines.rendered import Rendered, explain, render
    from lbgen.exporters.parts import Exported
    from lbgen.exporters.run import export
    from lbgen.plan.effective import config
    from lbgen.plan.model import Plan
    from lbgen.plan.request import Request
    from lbgen.plan.resolve import check, plan
    from lbgen.plan.simulate import Outcome, simulate
    from lbgen.plan.tiers import Tier, tiers
    from lbgen.spec.load import Topology, load


__version__ = VERSION

_HOMES = {
    "Diagnostic": "lbgen.diagnostics",
    "EngineError": "lbgen.diagnostics",
    "Exported": "lbgen.exporters.parts",
    "LbgenError": "lbgen.diagnostics",
    "Outcome": "lbgen.plan.simulate",
    "Plan": "lbgen.plan.model",
    "Rendered": "lbgen.engines.rendered",
    "Report": "lbgen.conformance.verify.report",
    "Request": "lbgen.plan.request",
    "Severity": "lbgen.diagnostics",
    "Span": "lbgen.diagnostics",
    "Stack": "lbgen.api",
    "Tier": "lbgen.plan.tiers",
    "Topology": "lbgen.spec.load",
    "UsageError": "lbgen.diagnostics",
    "check": "lbgen.plan.resolve",
    "config": "lbgen.plan.effective",
    "diff": "lbgen.conformance.topology_diff",
    "explain": "lbgen.engines.rendered",
    "export": "lbgen.exporters.run",
    "load": "lbgen.spec.load",
    "preview": "lbgen.api",
    "reload": "lbgen.api",
    "render": "lbgen.engines.rendered",
    "simulate": "lbgen.plan.simulate",
    "tiers": "lbgen.plan.tiers",
    "up": "lbgen.api",
    "verify": "lbgen.conformance.verify.run",
}

__all__ = [
    "Diagnostic",
    "EngineError",
    "Exported",
    "LbgenError",
    "Outcome",
    "Plan",
    "Rendered",
    "Report",
    "Request",
    "Severity",
    "Span",
    "Stack",
    "Tier",
    "Topology",
    "UsageError",
    "bench",
    "check",
    "config",
    "diff",
    "explain",
    "export",
    "load",
    "plan",
    "preview",
    "reload",
    "render",
    "simulate",
    "tiers",
    "up",
    "verify",
]


def __getattr__(name: str) -> object:
    if name in ("bench", "plan"):  # the packages bench and plan are callable, see their __init__.py
        return import_module(f"lbgen.{name}")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
