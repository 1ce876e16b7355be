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
from lbgen.runtime.common.certificates import write_self_signed
from tests.topologies import draw
from tests.topologies.run import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


def everything(folder: Path) -> Plan:
    """A topology with one of each kind of resource and parameter, whose certificates are in the folder."""
    for name in ("a.example", "b.example"):
        write_self_signed(folder / f"{name}.crt", folder / f"{name}.key", (name,))
    return plan_of(
        listeners={
            "http": {"port": 80},
            "web": {"port": 443, "tls": {"certificates": _pairs(folder, "a.example", "b.example")}},
            "partners": {
                "port": 8443,
                "tls": {
                    "certificates": _pairs(folder, "a.example"),
                    "client": {"ca": str(folder / "a.example.crt"), "verify": "required"},
                },
                "access": {"allow": ["192.0.2.0/24", "2001:db8::/32"]},
            },
            "sql": {"port": 5432, "mode": "l4"},
            "mail": {"port": 993, "mode": "l4", "tls": {"certificates": _pairs(folder, "a.example")}},
            "dns": {"port": 53, "mode": "l4", "protocol": "udp"},
        },
        pools={
            "app": {
                "endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}],
                "health": {"active": {"path": "/up"}},
                "sticky": {"cookie": "s", "ttl": "1h"},
                "slow_start": "30s",
            },
            "six": {"endpoints": [{"address": "[2001:db8::1]:80"}], "balance": "least_connections"},
            "names": {"endpoints": [{"address": "names.internal:80"}], "tls": {"verify": False}},
            "calls": {"endpoints": [{"address": "10.0.0.3:80"}], "protocol": "grpc"},
            "db": {"endpoints": [{"address": "10.0.0.4:5432"}], "proxy_protocol": "v2"},
            "mail": {"endpoints": [{"address": "10.0.0.5:143"}]},
            "dns": {"endpoints": [{"address": "10.0.0.6:53"}]},
        },
        routes=[
            {"name": "https", "listeners": ["http"], "redirect": {"scheme": "https", "status": 301}},
            {
                "name": "admin",
                "listeners": ["web"],
                "match": [{"path": {"prefix": "/admin"}, "methods": ["GET", "POST", "PUT", "DELETE"]}],
                "access": {"allow": ["10.0.0.0/8"], "deny": ["10.0.0.0/24"]},
                "forward": "names",
                "rewrite": {"prefix": "/", "host": "admin.internal"},
            },
            {"name": "calls", "listeners": ["web"], "hosts": ["calls.example"], "forward": "calls"},
            {"name": "ok", "listeners": ["web"], "match": [{"path": {"exact": "/ok"}}], "respond": {"status": 200}},
            {
                "name": "site",
                "listeners": ["web", "partners"],
                "forward": [{"pool": "app", "weight": 9}, {"pool": "six", "weight": 1}],
            },
            *({"name": f"l4-{name}", "listeners": [name], "forward": pool} for name, pool in _L4.items()),
        ],
        access_log="json",
    )


_L4 = {"sql": "db", "mail": "mail", "dns": "dns"}


def _pairs(folder: Path, *names: str) -> list[dict[str, str]]:
    return [{"cert": str(folder / f"{name}.crt"), "key": str(folder / f"{name}.key")} for name in names]


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
