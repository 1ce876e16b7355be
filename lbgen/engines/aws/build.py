"""A plan as one CloudFormation template: an Application Load Balancer for its L7 listeners, a Network one for L4."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.aws import health_status, listeners
from lbgen.engines.aws.matching import listener_rules
from lbgen.engines.aws.view import LOAD_BALANCER, Template, attribute_of, attributes, ref, resource
from lbgen.engines.document import Plain, Tagged, origin
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Forward, Listener, Mode, Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

FILE = "template.yaml"
_KEEPALIVE = (60, 604_800)  # seconds that the API allows
_EVERYBODY = ("0.0.0.0/0", "::/0")


def render(plan: Plan) -> tuple[RenderedFile, ...]:
    """The template."""
    template = Template(plan)
    template.add_parameter("VpcId", "VPC of the load balancers and their targets", Type=Plain("AWS::EC2::VPC::Id"))
    zones = "Subnets of the load balancers, in two zones or more"
    template.add_parameter("SubnetIds", zones, Type=Plain("List<AWS::EC2::Subnet::Id>"))
    schemes: list[Data] = ["internet-facing", "internal"]
    template.add_parameter("Scheme", "Who reaches the load balancers", Default=schemes[0], AllowedValues=schemes)
    protection: dict[str, Data] = {"Default": "false", "AllowedValues": ["true", "false"]}
    template.add_parameter("DeletionProtection", "Whether the load balancers cannot be deleted", **protection)
    web = [each for each in plan.listeners if each.mode is Mode.L7]
    if web:
        _add_load_balancer(template, listeners.APPLICATION, web, _web_attributes(plan, web))
        health_status.add_error_alarm(template, listeners.APPLICATION)
    for listener in web:
        listeners.add_web(template, listener)
    raw = [each for each in plan.listeners if each.mode is Mode.L4]
    if raw:
        _add_load_balancer(template, listeners.NETWORK, raw, {"load_balancing.cross_zone.enabled": "true"})
    for listener in raw:
        listeners.add_raw(template, listener)
    return (RenderedFile(FILE, *dump(template.data(), f"{origin(plan)}\n{_command(template)}")),)


def _command(template: Template) -> str:
    """What deploys the template, with the parameters that have no default."""
    needed = " ".join(f"{name}=..." for name in template.required)
    stack = re.sub("[^a-z0-9]", "-", template.plan.name)  # a stack's name has letters, digits and hyphens
    return f"aws cloudformation deploy --template-file {FILE} --stack-name {stack} \\\n  --parameter-overrides {needed}"


def _add_load_balancer(template: Template, name: str, served: Sequence[Listener], settings: Mapping[str, str]) -> None:
    group = f"{name}SecurityGroup"
    template.resources[group] = _security_group(template.plan, served)
    # A Network Load Balancer logs TLS connections alone.
    logs = any(each.access_log and (each.mode is Mode.L7 or each.terminates_tls) for each in served)
    properties: dict[str, Data] = {
        "Type": "application" if name == listeners.APPLICATION else "network",
        "Scheme": ref("Scheme"),
        **({"IpAddressType": "dualstack"} if _is_dual_stack(template.plan, served) else {}),
        "Subnets": ref("SubnetIds"),
        "SecurityGroups": [ref(group)],
        "LoadBalancerAttributes": [
            *attributes({"deletion_protection.enabled": ref("DeletionProtection"), **settings}),
            *(_log_attributes(template, name) if logs else []),
        ],
    }
    template.resources[name] = resource(LOAD_BALANCER, properties)
    template.add_output(f"{name}DnsName", "Name to point an alias or CNAME record at", attribute_of(name, "DNSName"))
    zone = attribute_of(name, "CanonicalHostedZoneID")
    template.add_output(f"{name}HostedZoneId", "Zone of that name, for an alias record of Route 53", zone)
    template.add_output(f"{group}Id", "What the security groups of targets have to admit", ref(group))


def _security_group(plan: Plan, served: Sequence[Listener]) -> Data:
    ingress: list[Data] = []
    for listener in served:
        for network in _EVERYBODY if listener.access is None else listener.access.allow or ():
            rule: dict[str, Data] = {
                "Description": f"listener {listener.name}",
                "IpProtocol": str(listener.protocol),
                "FromPort": listener.port,
                "ToPort": listener.port,
                "CidrIpv6" if ":" in network else "CidrIp": network,
            }
            ingress.append(Tagged(listener.field, rule))
    properties: dict[str, Data] = {
        "GroupDescription": f"Clients of the topology {plan.name}",
        "VpcId": ref("VpcId"),
        "SecurityGroupIngress": ingress,
    }
    return resource("EC2::SecurityGroup", properties)


def _is_dual_stack(plan: Plan, served: Sequence[Listener]) -> bool:
    """Whether clients or targets have IPv6 addresses."""
    hosts = (endpoint.host for pool in plan.pools for endpoint in pool.endpoints)
    return any(each.address == "::" for each in served) or any(":" in host for host in hosts)


def _log_attributes(template: Template, name: str) -> list[Data]:
    bucket = "Bucket of S3 for access logs, in the same region and with a policy that admits them"
    condition, value = template.add_option("AccessLogBucket", bucket)
    logs = {"enabled": '"true"', "bucket": value, "prefix": name}
    return [
        Plain(f"!If [{condition}, {{ Key: access_logs.s3.{key}, Value: {each} }}, !Ref AWS::NoValue]")
        for key, each in logs.items()
    ]


def _web_attributes(plan: Plan, web: Sequence[Listener]) -> dict[str, str]:
    """As the contract has it where there is a choice: ambiguous requests are refused, Host is kept."""
    routes = {rule.route for listener in web for rule in listener_rules(listener)}
    actions = [route.action for route in plan.routes if route.name in routes]
    idle = [listeners.seconds(each.timeouts.idle, (1, 4000)) for each in actions if isinstance(each, Forward)]
    kept = [listeners.seconds(each.timeouts.keepalive, _KEEPALIVE) for each in web]
    return {
        "idle_timeout.timeout_seconds": str(max(idle, default=60)),
        "client_keep_alive.seconds": str(max(kept)),
        "routing.http.desync_mitigation_mode": "strictest",
        "routing.http.drop_invalid_header_fields.enabled": "true",
        "routing.http.preserve_host_header.enabled": "true",
        "routing.http.xff_header_processing.mode": (
            "append" if any(each.forwarded_headers for each in web) else "remove"
        ),
        "routing.http2.enabled": str(any(each.http2 for each in web)).lower(),
    }
