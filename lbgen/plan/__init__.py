"""The plan of a topology: names resolved, defaults written out, rules in the order of trial.

`lbgen.plan` is both this package and a public function, so the package is callable.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.plan.model import Plan
    from lbgen.spec.load import Topology


class _CallableModule(ModuleType):
    def __call__(self, topology: Topology) -> Plan:
        """The plan of `topology`; see `lbgen.plan.resolve.plan`.

        Times are in milliseconds, sizes in bytes. Raises LbgenError with all errors between objects (LB2xx), UsageError
        LB306 for a topology of tiers, whose plans `lbgen.tiers` gives.
        """
        from lbgen.plan.resolve import plan  # a module of this package

        return plan(topology)


sys.modules[__name__].__class__ = _CallableModule
