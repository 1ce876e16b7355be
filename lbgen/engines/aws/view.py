"""A template as it grows: its parameters, resources and outputs, by logical name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Plain, Tagged
from lbgen.plan.model import Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

LISTENER, RULE, CERTIFICATES = (
    f"ElasticLoadBalancingV2::{x}" for x in ("Listener", "ListenerRule", "ListenerCertificate")
)
LOAD_BALANCER, TARGET_GROUP = (f"ElasticLoadBalancingV2::{x}" for x in ("LoadBalancer", "TargetGroup"))


class Names:
    """Logical names of a template, which are letters and digits; other words have another name."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[str, ...]] = {}

    def of(self, *words: str) -> str:
        """The name for these words."""
        parts = [part for word in words for part in re.split(r"[^A-Za-z0-9]+", word) if part]
        name = base = "".join(part[:1].upper() + part[1:] for part in parts)
        number = 1
        while self._taken.setdefault(name, words) != words:
            number += 1
            name = f"{base}X{number}"
        return name


class Template:
    """What the parts of its plan add to. `groups` are target groups, which stand behind the listeners that lead to
    them; an optional parameter is empty by default, and its condition says whether it is given."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = Names()
        self.parameters: dict[str, Data] = {}
        self.conditions: dict[str, Data] = {}
        self.resources: dict[str, Data] = {}
        self.groups: dict[str, Data] = {}
        self.outputs: dict[str, Data] = {}

    @property
    def required(self) -> list[str]:
        """The parameters without a default."""
        return [name for name, each in self.parameters.items() if isinstance(each, dict) and "Default" not in each]

    def add_parameter(self, name: str, description: str, **settings: Data) -> Data:
        """A reference to the parameter of that name, a text unless `settings` have another `Type`."""
        self.parameters.setdefault(name, {"Type": "String", "Description": description, **settings})
        return ref(name)

    def add_option(self, name: str, description: str) -> tuple[str, Data]:
        """An optional parameter: the name of its condition, and a reference to it."""
        condition = f"Has{name}"
        self.conditions[condition] = Plain(f'!Not [!Equals [!Ref {name}, ""]]')
        return condition, self.add_parameter(name, f"{description}; none if empty", Default="")

    def add_output(self, name: str, description: str, value: Data) -> None:
        """A value that a stack shows once it is deployed."""
        self.outputs[name] = {"Description": description, "Value": value}

    def data(self) -> dict[str, Data]:
        """The document."""
        sections = {
            "Parameters": self.parameters,
            "Conditions": self.conditions,
            "Resources": _spaced({**self.resources, **self.groups}),
            "Outputs": self.outputs,
        }
        return {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": f"Load balancers of the topology {self.plan.name}",
            **{name: Commented("", section, apart=True) for name, section in sections.items() if section},
        }


def _spaced(resources: Mapping[str, Data]) -> dict[str, Data]:
    """With an empty line before each but the first."""
    found: dict[str, Data] = {}
    for name, each in resources.items():
        comment, value = (each.comment, each.value) if isinstance(each, Commented) else ("", each)
        found[name] = Commented(comment, value, apart=bool(found))
    return found


def resource(kind: str, properties: Mapping[str, Data], *, field: str = "", condition: str = "") -> Data:
    """A resource of AWS, which is there if `condition` holds; `field` is the topology field that it comes from."""
    asked: dict[str, Data] = {"Condition": condition} if condition else {}
    return Tagged(field, {"Type": Plain(f"AWS::{kind}"), **asked, "Properties": properties})


def attributes(values: Mapping[str, Data]) -> list[Data]:
    """Attributes as the API has them."""
    return [{"Key": key, "Value": value} for key, value in values.items()]


def ref(name: str) -> Data:
    """The value of the parameter, or the identifier of the resource, of that name."""
    return Plain(f"!Ref {name}")


def attribute_of(name: str, attribute: str) -> Data:
    """A value that the resource of that name has once it exists."""
    return Plain(f"!GetAtt {name}.{attribute}")
