"""Measure engines under load, on one topology that each of them verified first.

`lbgen.bench` is both this package and a public function, so the package is callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lbgen.bench.report import BenchReport
    from lbgen.plan.model import Plan
    from lbgen.spec.load import Topology


class _CallableModule(ModuleType):
    def __call__(self, topology: Topology | Plan, *arguments: Any, **options: Any) -> BenchReport:  # noqa: ANN401
        """Verify and measure `topology`; see `lbgen.bench.run.bench` for the arguments.

        Raises LbgenError (findings, verdicts), UsageError LB305 and LB431, EngineError LB402 and LB430.
        """
        from lbgen.bench.run import bench

        return bench(topology, *arguments, **options)


sys.modules[__name__].__class__ = _CallableModule
