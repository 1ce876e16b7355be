"""The engine of Amazon's load balancers: a CloudFormation template, judged by documentation and not by traffic.

It is no installed engine yet: some fields are neither rendered nor refused. Its tests say what holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import Binary, BinaryHint, CheckSpec, Images, Objection, ProcessSpec, RenderedFile, Verdict
from lbgen.engines.aws import objections as plan_objections
from lbgen.engines.aws import support
from lbgen.engines.aws.build import render

if TYPE_CHECKING:
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


class Aws(Struct, frozen=True):
    """See `lbgen.engines.api.Engine`."""

    name: str = "aws"
    title: str = "AWS load balancers"
    versions: tuple[str, ...] = ("2.0",)  # of the API
    binaries: tuple[BinaryHint, ...] = ()
    images: Images = Images({}, "")
    insertion_points: tuple[tuple[str, str], ...] = ()

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return support.SUPPORT[feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return plan_objections.objections(plan)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        return render(plan)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return ProcessSpec(())

    def access_record(self, line: str) -> AccessRecord | None:
        return None  # its logs are in S3

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return CheckSpec((), lambda code, output, answers: ())


ENGINE = Aws()
