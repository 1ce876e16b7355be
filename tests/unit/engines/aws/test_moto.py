"""moto, which stands in for the API, deploys the templates; what it holds then is what the plan says.

Its CloudFormation leaves out some properties (`LEFT_OUT`, the type of a load balancer, weights of default actions),
which the test passes to the same API itself, and refuses conditions with patterns, which are not checked then. It has
no IPv6 networks, trust stores, transforms, further certificates and alarms in a stack: these are read from the template
alone, by cfn-lint and the other tests here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.plan.model import Balance, Forward, Mode, Redirect
from lbgen.runtime.common.certificates import write_self_signed
from tests.unit.engines.aws.templates import (
    attributes,
    drawn,
    everything,
    expressible,
    plan_of,
    resources,
    template,
    text_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from lbgen.plan.model import Listener, Plan, Route

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")
elbv2 = pytest.importorskip("moto.elbv2.models")

REGION = "eu-west-1"
LEFT_OUT = {
    "LoadBalancer": {"LoadBalancerAttributes": "modify_load_balancer_attributes"},
    "TargetGroup": {"Targets": "register_targets", "TargetGroupAttributes": "modify_target_group_attributes"},
    "Listener": {"ListenerAttributes": "modify_listener_attributes"},
}
_BALANCES = {
    Balance.ROUND_ROBIN: "round_robin",
    Balance.LEAST_CONNECTIONS: "least_outstanding_requests",
    Balance.RANDOM: "weighted_random",
}


class Deployed:
    """A stack as the API tells of it; `ids` are the identifiers of its resources by logical name."""

    def __init__(self, plan: Plan) -> None:
        self.elb = boto3.client("elbv2", REGION)
        self.ec2 = boto3.client("ec2", REGION)
        formation = boto3.client("cloudformation", REGION)
        made = template(plan)
        network = self.ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        zones = {"a": "10.0.0.0/24", "b": "10.0.1.0/24"}
        subnets = [
            self.ec2.create_subnet(VpcId=network, CidrBlock=block, AvailabilityZone=f"{REGION}{zone}")["Subnet"]
            for zone, block in zones.items()
        ]
        given = {"VpcId": network, "SubnetIds": ",".join(each["SubnetId"] for each in subnets)}
        for name, parameter in made["Parameters"].items():
            if name.startswith("Certificate"):
                given[name] = boto3.client("acm", REGION).request_certificate(DomainName="a.example")["CertificateArn"]
            elif "Default" not in parameter and name not in given:
                given[name] = f"arn:aws:elasticloadbalancing:{REGION}:123456789012:truststore/{name}/1"
        parameters = [{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()]
        formation.create_stack(StackName="stack", TemplateBody=text_of(plan), Parameters=parameters)
        (stack,) = formation.describe_stacks(StackName="stack")["Stacks"]
        assert stack["StackStatus"] == "CREATE_COMPLETE"
        found = formation.describe_stack_resources(StackName="stack")["StackResources"]
        self.ids = {
            each["LogicalResourceId"]: each["PhysicalResourceId"] for each in found if "LogicalResourceId" in each
        }
        self.formation, self.parameters = formation, parameters
        defaults = {str({"Ref": name}): each.get("Default") for name, each in made["Parameters"].items()}
        for name, each in made["Resources"].items():
            kind = each["Type"].rpartition("::")[2]
            for key, call in LEFT_OUT.get(kind, {}).items():
                values = [
                    {name: defaults.get(str(text), text) for name, text in value.items()}
                    for value in each["Properties"].get(key, ())
                    if "Fn::If" not in value
                ]
                if values:
                    argument = "Targets" if key == "Targets" else "Attributes"
                    getattr(self.elb, call)(**{f"{kind}Arn": self.ids[name], argument: values})

    def update(self, plan: Plan) -> None:
        self.formation.update_stack(StackName="stack", TemplateBody=text_of(plan), Parameters=self.parameters)
        (stack,) = self.formation.describe_stacks(StackName="stack")["Stacks"]
        assert stack["StackStatus"] == "UPDATE_COMPLETE"

    def listeners(self) -> list[dict[str, Any]]:
        balancers = self.elb.describe_load_balancers()["LoadBalancers"]
        return [
            listener
            for each in balancers
            for listener in self.elb.describe_listeners(LoadBalancerArn=each["LoadBalancerArn"])["Listeners"]
        ]

    def listener(self, port: int, protocol: str) -> dict[str, Any]:
        (found,) = (each for each in self.listeners() if (each["Port"], each["Protocol"]) == (port, protocol))
        return found

    def rules(self, listener: dict[str, Any]) -> list[dict[str, Any]]:
        """In the order of trial, the default one last."""
        rules = self.elb.describe_rules(ListenerArn=listener["ListenerArn"])["Rules"]
        return sorted(rules, key=lambda each: int(each["Priority"]) if each["Priority"] != "default" else 50_001)

    def pool(self, arn: str) -> str:
        return next(name for name, each in self.ids.items() if each == arn).removeprefix("Pool").removesuffix("Udp")


@pytest.fixture(autouse=True)
def _without_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load balancers of a stack have their type, conditions may have patterns, and default actions weights."""
    validate = elbv2.ELBv2Backend._validate_conditions

    def without_patterns(self: Any, conditions: list[dict[str, Any]]) -> None:
        validate(self, [each for each in conditions if "RegexValues" not in str(each)])

    def create(cls: Any, name: str, resource: Any, account_id: str, region_name: str, **others: Any) -> Any:
        has = resource["Properties"]
        backend = elbv2.elbv2_backends[account_id][region_name]
        return backend.create_load_balancer(
            name, has["SecurityGroups"], has["Subnets"], scheme=has["Scheme"], loadbalancer_type=has["Type"]
        )

    monkeypatch.setattr(elbv2.ELBv2Backend, "_validate_conditions", without_patterns)
    monkeypatch.setattr(elbv2.ELBv2Backend, "convert_and_validate_properties", lambda _, has: has["DefaultActions"])
    monkeypatch.setattr(elbv2.FakeLoadBalancer, "create_from_cloudformation_json", classmethod(create))


@contextmanager
def deployed(plan: Plan) -> Iterator[Deployed]:
    with moto.mock_aws():
        yield Deployed(plan)


def protocol_of(listener: Listener) -> str:
    if listener.mode is Mode.L7:
        return "HTTPS" if listener.terminates_tls else "HTTP"
    return "TLS" if listener.terminates_tls else str(listener.protocol).upper()


def logical(pool: str) -> str:
    return "".join(part.capitalize() for part in pool.split("-"))


def action_of(stack: Deployed, action: dict[str, Any]) -> tuple[object, ...]:
    if action["Type"] == "redirect":
        return "redirect", int(action["RedirectConfig"]["StatusCode"].removeprefix("HTTP_"))
    if action["Type"] == "fixed-response":
        return "answer", int(action["FixedResponseConfig"]["StatusCode"])
    shares = action.get("ForwardConfig", {}).get("TargetGroups") or [{**action, "Weight": 1}]
    return "forward", *sorted((stack.pool(each["TargetGroupArn"]), int(each["Weight"])) for each in shares)


def expected_action(route: Route) -> tuple[object, ...]:
    action = route.action
    if isinstance(action, Redirect):
        return "redirect", action.status
    if not isinstance(action, Forward):
        return "answer", action.status
    targets = [each for each in action.targets if each.weight]
    if len(targets) == 1:
        return "forward", (logical(targets[0].pool), 1)
    return "forward", *sorted((logical(each.pool), each.weight) for each in targets)


def expected_actions(plan: Plan, listener: Listener) -> list[tuple[object, ...]]:
    """Of its rules in the order of trial, to the first that takes every request; 404 where there is none."""
    rules = {rule.id: rule for table in listener.hosts for rule in table.rules}.values()
    found: list[tuple[object, ...]] = []
    for rule in sorted(rules, key=lambda each: each.rank):
        found.append(expected_action(plan.route(rule.route)))
        if rule.host is None and rule.match.covers_all:
            return found
    return [*found, ("answer", 404)]


def without_repetition(actions: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Several rules may be one of the plan; those of `access` answer 403, and that for ambiguous paths 400."""
    refusals = (("answer", 400), ("answer", 403))
    return [action for action, _ in groupby(each for each in actions if each not in refusals)]


def check(plan: Plan, stack: Deployed) -> None:
    ports = {(each.port, protocol_of(each)) for each in plan.listeners}
    assert {(each["Port"], each["Protocol"]) for each in stack.listeners()} == ports
    for listener in plan.listeners:
        there = stack.listener(listener.port, protocol_of(listener))
        actions = [action_of(stack, rule["Actions"][0]) for rule in stack.rules(there)]
        if listener.mode is Mode.L7:
            expected = expected_actions(plan, listener)
        else:
            expected = [expected_action(plan.route(listener.l4_rules[0].route))]
        assert without_repetition(actions) == without_repetition(expected)
        check_admitted(stack, listener)
    for name, identifier in stack.ids.items():
        if "targetgroup" in identifier:
            check_group(plan, stack, name, identifier)


def check_admitted(stack: Deployed, listener: Listener) -> None:
    every = stack.ec2.describe_security_groups(GroupIds=[x for x in stack.ids.values() if x.startswith("sg-")])
    found = {
        network
        for group in every["SecurityGroups"]
        for each in group["IpPermissions"]
        if (each["FromPort"], each["IpProtocol"]) == (listener.port, str(listener.protocol))
        for network in (x["CidrIp"] for x in each["IpRanges"])
    }
    allowed = ("0.0.0.0/0",) if listener.access is None else listener.access.allow or ()
    assert found == {each for each in allowed if ":" not in each}


def check_group(plan: Plan, stack: Deployed, name: str, arn: str) -> None:
    (pool,) = (each for each in plan.pools if logical(each.name) == name.removeprefix("Pool").removesuffix("Udp"))
    (group,) = stack.elb.describe_target_groups(TargetGroupArns=[arn])["TargetGroups"]
    health = stack.elb.describe_target_health(TargetGroupArn=arn)["TargetHealthDescriptions"]
    targets = {(each["Target"]["Id"], each["Target"]["Port"]) for each in health}
    assert targets == {(each.host, each.port) for each in pool.endpoints if each.weight and each.is_ip}
    if pool.active is not None and pool.active.path is not None:
        assert group["HealthCheckPath"] == pool.active.path
        assert group["HealthCheckIntervalSeconds"] == max(5, pool.active.interval // 1000)
    settings = {
        each["Key"]: each["Value"]
        for each in stack.elb.describe_target_group_attributes(TargetGroupArn=arn)["Attributes"]
    }
    if group["Protocol"] in ("HTTP", "HTTPS"):
        assert settings["load_balancing.algorithm.type"] == _BALANCES[pool.balance]
        assert settings["stickiness.enabled"] == str(pool.sticky is not None).lower()
    elif group["Protocol"] == "TCP":
        assert settings["proxy_protocol_v2.enabled"] == str(pool.proxy_protocol == "v2").lower()


@pytest.mark.parametrize("plan", [pytest.param(each, id=each.name) for each in expressible()])
def test_examples(plan: Plan) -> None:
    with deployed(plan) as stack:
        check(plan, stack)


def test_one_of_each_kind(tmp_path: Path) -> None:
    plan = everything(tmp_path)
    with deployed(plan) as stack:
        check(plan, stack)


def test_random_topologies(every: bool) -> None:
    for plan in drawn(50 if every else 5):
        with deployed(plan) as stack:
            check(plan, stack)


def test_a_route_in_the_middle_changes_no_priority() -> None:
    """CloudFormation cannot give a rule the priority that another one has."""
    routes = [{"name": x, "match": [{"path": {"prefix": f"/{x}"}}], "respond": {"status": 200}} for x in "acd"]
    added = {"name": "bb", "match": [{"path": {"prefix": "/bb"}}], "redirect": {"host": "b.example", "status": 301}}
    before, after = plan_of(routes=routes), plan_of(routes=[*routes, added])
    places = [{name: x["Priority"] for name, x in resources(each, "ListenerRule").items()} for each in (before, after)]
    assert places[0].items() < places[1].items()
    with deployed(before) as stack:
        stack.update(after)
        check(after, stack)


def test_attributes_of_the_load_balancer() -> None:
    plan = plan_of(timeouts={"idle": "2m"}, client_timeouts={"keepalive": "5m"})
    with deployed(plan) as stack:
        found = stack.elb.describe_load_balancer_attributes(LoadBalancerArn=stack.ids["ApplicationLoadBalancer"])
    assert (
        attributes(found, "Attributes").items()
        >= {
            "idle_timeout.timeout_seconds": "120",
            "client_keep_alive.seconds": "300",
            "routing.http.desync_mitigation_mode": "strictest",
            "routing.http.drop_invalid_header_fields.enabled": "true",
        }.items()
    )


def test_tls(tmp_path: Path) -> None:
    files = {name: (tmp_path / f"{name}.crt", tmp_path / f"{name}.key") for name in ("one.example", "two.example")}
    for name, (certificate, key) in files.items():
        write_self_signed(certificate, key, (name,))
    pairs = [{"cert": str(certificate), "key": str(key)} for certificate, key in files.values()]
    tls = {"certificates": pairs, "min_version": "1.3"}
    plan = plan_of(
        listeners={"web": {"port": 443, "tls": tls}, "raw": {"port": 993, "mode": "l4", "tls": tls}},
        pools={name: {"endpoints": [{"address": "10.0.0.1:80"}]} for name in ("app", "mail")},
        routes=[
            {"name": "a", "listeners": ["web"], "forward": "app"},
            {"name": "b", "listeners": ["raw"], "forward": "mail"},
        ],
    )
    with deployed(plan) as stack:
        check(plan, stack)
        for listener in stack.listeners():
            assert listener["SslPolicy"] == "ELBSecurityPolicy-TLS13-1-3-PQ-2025-09"
    made = template(plan)
    assert {"CertificateWeb", "CertificateWeb2"} <= made["Parameters"].keys()
    assert made["Resources"]["CertificatesWeb"]["Properties"] == {
        "ListenerArn": {"Ref": "ListenerWeb"},
        "Certificates": [{"CertificateArn": {"Ref": "CertificateWeb2"}}],
    }


def test_layer_4() -> None:
    plan = plan_of(
        listeners={"sql": {"port": 5432, "mode": "l4"}, "dns": {"port": 53, "mode": "l4", "protocol": "udp"}},
        pools={
            "db": {"endpoints": [{"address": "10.0.0.1:5432"}], "proxy_protocol": "v2"},
            "dns": {"endpoints": [{"address": "10.0.0.2:53"}]},
        },
        routes=[
            {"name": "sql", "listeners": ["sql"], "forward": "db", "timeouts": {"idle": "10m"}},
            {"name": "dns", "listeners": ["dns"], "forward": "dns"},
        ],
    )
    with deployed(plan) as stack:
        check(plan, stack)
        arn = stack.listener(5432, "TCP")["ListenerArn"]
        found = attributes(stack.elb.describe_listener_attributes(ListenerArn=arn), "Attributes")
    assert found["tcp.idle_timeout.seconds"] == "600"
