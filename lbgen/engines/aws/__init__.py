"""The engine of Amazon's load balancers: a CloudFormation template, judged by documentation and not by traffic."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import Binary, BinaryHint, CheckSpec, Images, Objection, ProcessSpec, RenderedFile, Verdict
from lbgen.engines.aws import objections as plan_objections
from lbgen.engines.aws import run, support
from lbgen.engines.aws.build import FILE, render

if TYPE_CHECKING:
    from lbgen.json_types import AccessRecord
    from lbgen.plan.features import Feature
    from lbgen.plan.model import Plan


class Aws(Struct, frozen=True):
    """See `lbgen.engines.api.Engine` and `Deployed`."""

    name: str = "aws"
    title: str = "AWS ELB"
    versions: tuple[str, ...] = ("2.0",)  # of the service, which has Application and Network Load Balancers
    binaries: tuple[BinaryHint, ...] = ()
    images: Images = Images({}, "")
    insertion_points: tuple[tuple[str, str], ...] = ()
    checker: BinaryHint = run.CHECKER
    checker_install: str = "pip install 'lbgen[aws]'"
    deploy_command: str = (
        f"aws cloudformation deploy --template-file DIR/aws/{FILE} --stack-name NAME --parameter-overrides "
        "VpcId=VPC SubnetIds=SUBNET,SUBNET"
    )

    def verdict(self, feature: Feature, version: str) -> Verdict:
        return support.SUPPORT[feature]

    def objections(self, plan: Plan, version: str) -> Iterable[Objection]:
        return plan_objections.objections(plan)

    def render(self, plan: Plan, version: str) -> tuple[RenderedFile, ...]:
        return render(plan)

    def process(self, plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
        return ProcessSpec(())  # nothing of it runs here

    def access_record(self, line: str) -> AccessRecord | None:
        return None  # its logs are in S3

    def check(self, plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
        return run.check(binary)


ENGINE = Aws()
