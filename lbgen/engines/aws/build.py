"""A plan as one CloudFormation template: an Application Load Balancer for its L7 listeners, a Network one for L4."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.aws.actions import default_action, rules_of
from lbgen.engines.aws.matching import conditions, listener_rules, tests
from lbgen.engines.aws.upstreams import target_group
from lbgen.engines.document import Commented, Tagged, origin
from lbgen.engines.yaml_writer import dump
from lbgen.plan.model import Forward, Mode, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan

FILE = "template.yaml"
_ELB = "AWS::ElasticLoadBalancingV2"
_WEB, _RAW = "ApplicationLoadBalancer", "NetworkLoadBalancer"
# TLS 1.2 and 1.3, and 1.3 alone ("Security policies for your Application Load Balancer").
_POLICIES = {"1.2": "ELBSecurityPolicy-TLS13-1-2-2021-06", "1.3": "ELBSecurityPolicy-TLS13-1-3-2021-06"}
# Seconds that the API allows.
_IDLE, _RAW_IDLE, _KEEPALIVE = (1, 4000), (60, 6000), (60, 604_800)


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


def render(plan: Plan) -> tuple[RenderedFile, ...]:
    """The template."""
    return (_Template(plan).render(),)


class _Template:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names = Names()
        self.web = [each for each in plan.listeners if each.mode is Mode.L7]
        self.raw = [each for each in plan.listeners if each.mode is Mode.L4]

    def render(self) -> RenderedFile:
        resources: dict[str, Data] = {"SecurityGroup": self.security_group()}
        if self.web:
            resources[_WEB] = _load_balancer("application", self.web_attributes())
        if self.raw:
            resources[_RAW] = _load_balancer("network", {"load_balancing.cross_zone.enabled": "true"})
        for name, of_connections in self.used_pools():
            protocol = next((each.protocol for each in self.raw), Protocol.TCP) if of_connections else None
            resources[self.group(name, l4=of_connections)] = target_group(self.plan.pool(name), protocol)
        for listener in self.web:
            resources |= self.web_listener(listener)
        for listener in self.raw:
            resources |= self.raw_listener(listener)
        template: dict[str, Data] = {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Description": f"Load balancers of the topology {self.plan.name}",
            "Parameters": self.parameters(),
            "Resources": {name: Commented("", each, apart=True) for name, each in resources.items()},
            "Outputs": {
                f"{kind}DnsName": {"Value": {"Fn::GetAtt": [kind, "DNSName"]}}
                for kind in (_WEB, _RAW)
                if kind in resources
            },
        }
        header = f"{origin(self.plan)}. Deploy it with `aws cloudformation deploy --template-file {FILE}`."
        return RenderedFile(FILE, *dump(template, header))

    def parameters(self) -> dict[str, Data]:
        found: dict[str, Data] = {
            "VpcId": {"Type": "AWS::EC2::VPC::Id"},
            "SubnetIds": {"Type": "List<AWS::EC2::Subnet::Id>", "Description": "two or more, in several zones"},
            "Scheme": {
                "Type": "String",
                "Default": "internet-facing",
                "AllowedValues": ["internet-facing", "internal"],
            },
        }
        for listener in self.plan.listeners:
            if listener.terminates_tls:
                what = f"ARN of a certificate of ACM for the listener {listener.name}"
                found[self.certificate(listener)] = {"Type": "String", "Description": what}
            if listener.tls is not None and listener.tls.client_ca is not None:
                what = f"ARN of a trust store with the authorities of clients of the listener {listener.name}"
                found[self.trust_store(listener)] = {"Type": "String", "Description": what}
        return found

    def certificate(self, listener: Listener) -> str:
        return self.names.of("certificate", listener.name)

    def trust_store(self, listener: Listener) -> str:
        return self.names.of("trust-store", listener.name)

    def group(self, pool: str, *, l4: bool = False) -> str:
        return self.names.of("pool", pool, *(["connections"] if l4 else []))

    def security_group(self) -> Data:
        ingress: list[Data] = []
        for listener in self.plan.listeners:
            allowed = ("0.0.0.0/0", "::/0") if listener.access is None else listener.access.allow or ()
            for network in allowed:
                key = "CidrIpv6" if ":" in network else "CidrIp"
                port = {"FromPort": listener.port, "ToPort": listener.port}
                ingress.append(Tagged(listener.field, {"IpProtocol": str(listener.protocol), **port, key: network}))
        properties: dict[str, Data] = {
            "GroupDescription": f"Clients of the topology {self.plan.name}",
            "VpcId": {"Ref": "VpcId"},
            "SecurityGroupIngress": ingress,
        }
        return {"Type": "AWS::EC2::SecurityGroup", "Properties": properties}

    def web_attributes(self) -> dict[str, str]:
        """As the contract has it where there is a choice: ambiguous requests are refused, Host is kept."""
        actions = [route.action for route in self.plan.routes if isinstance(route.action, Forward)]
        idle = [_seconds(each.timeouts.idle, _IDLE) for each in actions]
        kept = [_seconds(each.timeouts.keepalive, _KEEPALIVE) for each in self.web]
        return {
            "idle_timeout.timeout_seconds": str(max(idle, default=60)),
            "client_keep_alive.seconds": str(max(kept)),
            "routing.http.desync_mitigation_mode": "strictest",
            "routing.http.drop_invalid_header_fields.enabled": "true",
            "routing.http.preserve_host_header.enabled": "true",
            "routing.http2.enabled": str(any(each.http2 for each in self.web)).lower(),
        }

    def used_pools(self) -> Iterator[tuple[str, bool]]:
        """The pools that get requests, and those that get connections (True)."""
        routes = {
            False: {rule.route for listener in self.web for rule in listener_rules(listener)},
            True: {rule.route for listener in self.raw for rule in listener.l4_rules},
        }
        for pool in self.plan.pools:
            for of_connections, names in routes.items():
                actions = [self.plan.route(name).action for name in names]
                targets = [target for each in actions if isinstance(each, Forward) for target in each.targets]
                if any(target.pool == pool.name and target.weight for target in targets):
                    yield pool.name, of_connections

    def web_listener(self, listener: Listener) -> dict[str, Data]:
        name, rules = self.names.of("listener", listener.name), listener_rules(listener)
        default = default_action(self.plan, rules[-1], self.group) if rules and not tests(rules[-1]) else None
        if default is not None:
            rules = rules[:-1]
        made: dict[str, Data] = {
            name: _listener(
                listener,
                {
                    "LoadBalancerArn": {"Ref": _WEB},
                    "Port": listener.port,
                    "Protocol": "HTTPS" if listener.terminates_tls else "HTTP",
                    **self.tls(listener),
                    "DefaultActions": [default or _NO_ROUTE],
                },
            )
        }
        for rule in rules:
            for number, (wanted, action, transforms) in enumerate(rules_of(self.plan, rule, self.group), 1):
                key = self.names.of("rule", listener.name, rule.id, *([f"part-{number}"] if number > 1 else []))
                properties: dict[str, Data] = {
                    "ListenerArn": {"Ref": name},
                    "Priority": len(made),
                    "Conditions": conditions(wanted),
                    "Actions": [action],
                    **({"Transforms": transforms} if transforms else {}),
                }
                made[key] = Tagged(rule.field, {"Type": f"{_ELB}::ListenerRule", "Properties": properties})
        return made

    def raw_listener(self, listener: Listener) -> dict[str, Data]:
        action = self.plan.route(listener.l4_rules[0].route).action if listener.l4_rules else None
        assert isinstance(action, Forward)  # noqa: S101  # all routes of bytes are
        groups: list[Data] = [
            {"TargetGroupArn": {"Ref": self.group(target.pool, l4=True)}, "Weight": target.weight}
            for target in action.targets
            if target.weight
        ]
        properties: dict[str, Data] = {
            "LoadBalancerArn": {"Ref": _RAW},
            "Port": listener.port,
            "Protocol": "TLS" if listener.terminates_tls else str(listener.protocol).upper(),
            **self.tls(listener),
            "DefaultActions": [{"Type": "forward", "ForwardConfig": {"TargetGroups": groups}}],
        }
        if listener.protocol is Protocol.TCP and not listener.terminates_tls:
            seconds = _seconds(action.timeouts.idle, _RAW_IDLE)
            properties["ListenerAttributes"] = [{"Key": "tcp.idle_timeout.seconds", "Value": str(seconds)}]
        return {self.names.of("listener", listener.name): _listener(listener, properties)}

    def tls(self, listener: Listener) -> dict[str, Data]:
        if listener.tls is None or not listener.terminates_tls:
            return {}
        found: dict[str, Data] = {
            "SslPolicy": _POLICIES[listener.tls.min_version],
            "Certificates": [{"CertificateArn": {"Ref": self.certificate(listener)}}],
        }
        if listener.tls.client_ca is not None:
            found["MutualAuthentication"] = {"Mode": "verify", "TrustStoreArn": {"Ref": self.trust_store(listener)}}
        return found


_NO_ROUTE: Data = {"Type": "fixed-response", "FixedResponseConfig": {"StatusCode": "404", "ContentType": "text/plain"}}


def _listener(listener: Listener, properties: dict[str, Data]) -> Data:
    return Tagged(listener.field, {"Type": f"{_ELB}::Listener", "Properties": properties})


def _load_balancer(kind: str, attributes: Mapping[str, str]) -> Data:
    properties: dict[str, Data] = {
        "Type": kind,
        "Scheme": {"Ref": "Scheme"},
        "Subnets": {"Ref": "SubnetIds"},
        "SecurityGroups": [{"Ref": "SecurityGroup"}],
        "LoadBalancerAttributes": [{"Key": key, "Value": value} for key, value in attributes.items()],
    }
    return {"Type": f"{_ELB}::LoadBalancer", "Properties": properties}


def _seconds(milliseconds: int, bounds: tuple[int, int]) -> int:
    """Whole seconds within the bounds; 0 is no limit, hence the most."""
    low, high = bounds
    return min(high, max(low, -(-milliseconds // 1000))) if milliseconds else high
