"""Templates as readers of YAML have them, and the topologies that they are made of."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import yaml
from msgspec.structs import replace

import lbgen
from lbgen.conformance.case import case_files
from lbgen.conformance.prepare import plan_of as case_plan
from lbgen.diagnostics import LbgenError
from lbgen.engines.aws import ENGINE
from lbgen.engines.verdicts import judge
from lbgen.resources import folder
from tests.topologies import draw
from tests.topologies.run import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import Plan

EXAMPLES = folder("examples")


class _Loader(yaml.SafeLoader):
    """Reads the short forms of functions as the long ones."""


def _function(loader: yaml.Loader, tag: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    else:
        assert isinstance(node, yaml.SequenceNode)
        value = loader.construct_sequence(node, deep=True)
    if tag == "GetAtt":
        value = value.split(".", 1)
    return {tag if tag == "Ref" else f"Fn::{tag}": value}


yaml.add_multi_constructor("!", _function, Loader=_Loader)


def text_of(plan: Plan) -> str:
    (file,) = ENGINE.render(plan, ENGINE.versions[0])
    return file.text


def template(plan: Plan) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(text_of(plan), _Loader)  # noqa: S506  # a safe one
    return found


def resources(plan: Plan, kind: str) -> dict[str, dict[str, Any]]:
    """The properties of the resources of a kind, by name."""
    every = template(plan)["Resources"].items()
    return {name: each["Properties"] for name, each in every if each["Type"].endswith(f"::{kind}")}


def attributes(properties: dict[str, Any], of: str) -> dict[str, str]:
    return {each["Key"]: each["Value"] for each in properties[of] if "Key" in each}


def refusals(plan: Plan) -> list[str]:
    """The fields for which the engine does not render the topology."""
    return [each.field for each in judge(plan, ENGINE, ENGINE.versions[0], ("all",))[1]]


def is_taken(plan: Plan) -> bool:
    return not refusals(plan)


def expressible() -> Iterator[Plan]:
    """The examples that the engine does not refuse."""
    for path in sorted(EXAMPLES.glob("*/*.yaml")):
        try:
            plan = lbgen.plan(lbgen.load(path))
        except LbgenError:
            continue
        if plan.listeners and is_taken(plan):
            yield plan


def cases() -> Iterator[Plan]:
    """The topologies of conformance cases that the engine does not refuse."""
    for file in case_files():
        plan = case_plan(file.topology)
        if plan.listeners and is_taken(plan):
            yield replace(plan, name=file.name)


def drawn(count: int) -> Iterator[Plan]:
    """Random topologies of what the engine takes."""
    rng = random.Random(4)
    while count:
        try:
            plan = lbgen.plan(loaded(draw.topology(rng, ("aws",))))
        except LbgenError:
            continue  # fields that exclude each other
        if is_taken(plan):
            count -= 1
            yield plan


def plan_of(**topology: Any) -> Plan:
    """That of a topology of which the rest is the least."""
    least = {
        "version": 1,
        "name": "t",
        "profile": "minimal",
        "accept": {"all": ["all"]},
        "listeners": {"web": {"port": 8080}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [{"name": "all", "forward": "app"}],
    }
    return lbgen.plan(lbgen.load({**least, **topology}))
