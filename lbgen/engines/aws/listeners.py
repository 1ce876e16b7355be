"""Listeners of load balancers: their certificates and rules, and the target groups that these lead to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lbgen.engines.aws import health_status
from lbgen.engines.aws.actions import Part, answer, forward, rules_of
from lbgen.engines.aws.matching import Test, by_hosts, conditions, listener_rules
from lbgen.engines.aws.paths import AMBIGUOUS
from lbgen.engines.aws.upstreams import lists_targets, target_group
from lbgen.engines.aws.view import CERTIFICATES, LISTENER, RULE, Template, attributes, ref, resource
from lbgen.engines.document import Commented
from lbgen.plan.model import Forward, Listener, Mode, Plan, Protocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data

APPLICATION, NETWORK = "ApplicationLoadBalancer", "NetworkLoadBalancer"
# TLS 1.2 and 1.3 with ECDHE and AES-GCM, and TLS 1.3 alone, both with hybrid key exchange: what AWS recommends
# ("Security policies for your Application Load Balancer").
_POLICIES = {"1.2": "ELBSecurityPolicy-TLS13-1-2-Res-PQ-2025-09", "1.3": "ELBSecurityPolicy-TLS13-1-3-PQ-2025-09"}
_RAW_IDLE = (60, 6000)  # seconds that the API allows


def web_rules(plan: Plan, listener: Listener, group: Callable[[str], str]) -> tuple[list[tuple[str, str, Part]], Data]:
    """The rules of an Application Load Balancer in the order of trial, each with its field and a comment, and the
    default action. The first refuses ambiguous paths for endpoints. ValueError as of `rules_of`."""
    rules = listener_rules(listener)
    found: list[tuple[str, str, Part]] = []
    if any(isinstance(plan.route(rule.route).action, Forward) for rule in rules):
        refused = Test("path-pattern", AMBIGUOUS, by_regex=True)
        found.append((listener.field, "Paths that can be read in two ways", ((refused,), answer(400), [])))
    for rule, hosts in by_hosts(rules):
        found += ((rule.field, f"Route {rule.route}", part) for part in rules_of(plan, rule, hosts, group))
    if found:
        wanted, action, transforms = found[-1][2]
        if not wanted and not transforms:
            return found[:-1], action
    return found, answer(404)


def add_web(template: Template, listener: Listener) -> None:
    """The listener of an Application Load Balancer with its rules."""
    rules, default = web_rules(template.plan, listener, partial(_add_group, template, None))
    name = _add(template, listener, default, {})
    for priority, (field, comment, (wanted, action, transforms)) in enumerate(rules, 1):
        properties: dict[str, Data] = {
            "ListenerArn": ref(name),
            "Priority": priority,
            "Conditions": conditions(wanted),
            "Actions": [action],
            **({"Transforms": transforms} if transforms else {}),
        }
        # Named by their places: CloudFormation cannot give a rule the priority that another one has.
        key = template.names.of("rule", listener.name, f"{priority:03}")
        template.resources[key] = Commented(comment, resource(RULE, properties, field=field))


def add_raw(template: Template, listener: Listener) -> None:
    """The listener of a Network Load Balancer, which has one action."""
    action = template.plan.route(listener.l4_rules[0].route).action
    assert isinstance(action, Forward)  # noqa: S101  # all routes of connections are
    group = partial(_add_group, template, listener.protocol)
    plain = listener.protocol is Protocol.TCP and not listener.terminates_tls
    idle = {"tcp.idle_timeout.seconds": str(seconds(action.timeouts.idle, _RAW_IDLE))} if plain else {}
    _add(template, listener, forward(template.plan, action, group), idle)


def seconds(milliseconds: int, bounds: tuple[int, int]) -> int:
    """Whole seconds within the bounds; 0 is no limit, hence the most."""
    low, high = bounds
    return min(high, max(low, -(-milliseconds // 1000))) if milliseconds else high


def _add(template: Template, listener: Listener, action: Data, settings: dict[str, str]) -> str:
    """The logical name of the listener, which does that by default."""
    name = template.names.of("listener", listener.name)
    l7 = listener.mode is Mode.L7
    plain, over_tls = ("HTTP", "HTTPS") if l7 else (str(listener.protocol).upper(), "TLS")
    arns = _certificates(template, listener)
    properties: dict[str, Data] = {
        "LoadBalancerArn": ref(APPLICATION if l7 else NETWORK),
        "Port": listener.port,
        "Protocol": over_tls if listener.terminates_tls else plain,
        **(_tls(template, listener, arns[0]) if arns else {}),
        "DefaultActions": [action],
        **({"ListenerAttributes": attributes(settings)} if settings else {}),
    }
    template.resources[name] = resource(LISTENER, properties, field=listener.field)
    if arns[1:]:
        others: list[Data] = [{"CertificateArn": arn} for arn in arns[1:]]
        properties = {"ListenerArn": ref(name), "Certificates": others}
        key = template.names.of("certificates", listener.name)
        template.resources[key] = resource(CERTIFICATES, properties, field=listener.field)
    return name


def _certificates(template: Template, listener: Listener) -> Sequence[Data]:
    """ARNs, the default one first: those that the topology has, else a parameter for each of its certificates."""
    if listener.tls is None or not listener.terminates_tls:
        return ()
    written = dict(template.plan.options("aws").certificate_arns).get(listener.name)
    if written is not None:
        return written
    found = []
    for number, certificate in enumerate(listener.tls.certificates, 1):
        names = ", ".join(map(str, certificate.names)) or listener.name
        key = template.names.of("certificate", listener.name, *([str(number)] if number > 1 else []))
        found.append(template.add_parameter(key, f"ARN of the certificate of ACM for {names}"))
    return found


def _tls(template: Template, listener: Listener, arn: Data) -> dict[str, Data]:
    assert listener.tls is not None  # noqa: S101  # it has certificates
    found: dict[str, Data] = {
        "SslPolicy": _POLICIES[listener.tls.min_version],
        "Certificates": [{"CertificateArn": arn}],
    }
    if listener.tls.client_ca is not None:
        what = f"ARN of the trust store with the authorities of clients of the listener {listener.name}"
        store = template.add_parameter(template.names.of("trust-store", listener.name), what)
        found["MutualAuthentication"] = {"Mode": "verify", "TrustStoreArn": store}
    return found


def _add_group(template: Template, protocol: Protocol | None, name: str) -> str:
    """The logical name of the target group of a pool, for connections of that protocol or for requests (None)."""
    pool = template.plan.pool(name)
    key = template.names.of("pool", name, *(["udp"] if protocol is Protocol.UDP else []))
    if key in template.groups:
        return key
    kind: Data = "ip"
    if not lists_targets(pool):
        types: list[Data] = ["ip", "instance"]
        what = f"Type of the targets that are registered with the pool {name}: instance for an Auto Scaling group"
        kind = template.add_parameter(f"{key}TargetType", what, Default=types[0], AllowedValues=types)
        template.add_output(f"{key}Arn", f"Where to register the targets of the pool {name}", ref(key))
    template.groups[key] = target_group(pool, protocol, kind)
    health_status.add_target_alarm(template, key, APPLICATION if protocol is None else NETWORK)
    return key
