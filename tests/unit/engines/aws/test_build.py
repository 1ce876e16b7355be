"""What the fields of a topology become in the template."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.engines.aws.objections import objections
from lbgen.runtime.common.certificates import write_self_signed
from tests.unit.engines.aws.templates import (
    attributes,
    drawn,
    expressible,
    is_taken,
    plan_of,
    refusals,
    resources,
    template,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_listeners_admit_their_own_networks() -> None:
    access = {"allow": ["192.0.2.0/24", "2001:db8::/32"]}
    plan = plan_of(listeners={"web": {"port": 8080, "access": access}, "open": {"port": 8081}})
    (group,) = resources(plan, "SecurityGroup").values()
    ingress = {(each["FromPort"], each.get("CidrIp") or each["CidrIpv6"]) for each in group["SecurityGroupIngress"]}
    assert ingress == {(8080, "192.0.2.0/24"), (8080, "2001:db8::/32"), (8081, "0.0.0.0/0"), (8081, "::/0")}


def test_denied_networks_of_a_listener_are_refused() -> None:
    assert not is_taken(plan_of(listeners={"web": {"port": 8080, "access": {"deny": ["192.0.2.0/24"]}}}))


def test_a_route_answers_403_to_networks_that_it_does_not_admit() -> None:
    routes = [{"name": "a", "forward": "app", "access": {"deny": ["192.0.2.0/24"], "allow": ["192.0.0.0/16"]}}]
    plan = plan_of(routes=routes)
    rules = sorted(resources(plan, "ListenerRule").values(), key=lambda each: each["Priority"])
    found = [(each["Actions"][0]["Type"], each["Conditions"][0]["SourceIpConfig"]["Values"]) for each in rules[1:]]
    assert found == [("fixed-response", ["192.0.2.0/24"]), ("forward", ["192.0.0.0/16"])]
    (listener,) = resources(plan, "Listener").values()
    assert listener["DefaultActions"][0]["FixedResponseConfig"]["StatusCode"] == "403"


def test_names_are_registered_by_others() -> None:
    plan = plan_of(pools={"app": {"endpoints": [{"address": "app.internal:80"}]}})
    made = template(plan)
    (group,) = resources(plan, "TargetGroup").values()
    assert "Targets" not in group
    assert group["TargetType"] == {"Ref": "PoolAppTargetType"}
    assert made["Parameters"]["PoolAppTargetType"]["AllowedValues"] == ["ip", "instance"]
    assert made["Outputs"]["PoolAppArn"]["Value"] == {"Ref": "PoolApp"}


def test_datagrams_and_connections_have_groups_of_their_own() -> None:
    listeners = {
        "tcp": {"port": 5300, "mode": "l4"},
        "udp": {"port": 53, "mode": "l4", "protocol": "udp"},
    }
    routes = [{"name": name, "listeners": [name], "forward": "app"} for name in listeners]
    plan = plan_of(listeners=listeners, routes=routes)
    groups = resources(plan, "TargetGroup")
    assert {name: each["Protocol"] for name, each in groups.items()} == {"PoolApp": "TCP", "PoolAppUdp": "UDP"}
    # The API refuses these attributes over UDP.
    assert attributes(groups["PoolAppUdp"], "TargetGroupAttributes").keys() == {"deregistration_delay.timeout_seconds"}
    actions = {each["Protocol"]: each["DefaultActions"] for each in resources(plan, "Listener").values()}
    assert actions == {
        "TCP": [{"Type": "forward", "TargetGroupArn": {"Ref": "PoolApp"}}],
        "UDP": [{"Type": "forward", "TargetGroupArn": {"Ref": "PoolAppUdp"}}],
    }


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ({}, {"HealthCheckProtocol": "HTTP", "HealthCheckPath": "/", "Matcher": {"HttpCode": "200-499"}}),
        (
            {"tls": {"verify": False}, "health": {"active": {"path": "/up", "interval": "10s", "timeout": "10s"}}},
            {
                "HealthCheckProtocol": "HTTPS",
                "HealthCheckPath": "/up",
                "HealthCheckIntervalSeconds": 10,
                "HealthCheckTimeoutSeconds": 9,
            },
        ),
        ({"protocol": "grpc"}, {"HealthCheckPath": "/AWS.ALB/healthcheck", "Matcher": {"GrpcCode": "0-99"}}),
    ],
)
def test_checks(pool: dict[str, Any], expected: dict[str, Any]) -> None:
    plan = plan_of(pools={"app": {"endpoints": [{"address": "10.0.0.1:80"}], **pool}})
    (group,) = resources(plan, "TargetGroup").values()
    assert group.items() >= expected.items()


def test_logs_go_to_a_bucket_where_the_topology_asks_for_them() -> None:
    off, on = ("AccessLogBucket" in template(plan_of(access_log=each))["Parameters"] for each in ("none", "json"))
    assert (off, on) == (False, True)


def test_alarms_need_a_topic() -> None:
    made = template(plan_of())
    alarms = {name: each for name, each in made["Resources"].items() if each["Type"] == "AWS::CloudWatch::Alarm"}
    assert alarms.keys() == {"AlarmApplicationLoadBalancer", "AlarmPoolApp"}
    assert {each["Condition"] for each in alarms.values()} == {"HasAlarmTopicArn"}


def test_idle_time_is_that_of_the_routes_on_its_listeners() -> None:
    listeners = {"web": {"port": 80}, "tcp": {"port": 81, "mode": "l4"}}
    routes = [
        {"name": "a", "listeners": ["web"], "forward": "app", "timeouts": {"idle": "90s"}},
        {"name": "b", "listeners": ["tcp"], "forward": "db", "timeouts": {"idle": "1h"}},
    ]
    pools = {name: {"endpoints": [{"address": "10.0.0.1:80"}]} for name in ("app", "db")}
    plan = plan_of(listeners=listeners, routes=routes, pools=pools)
    balancers = resources(plan, "LoadBalancer")
    web = attributes(balancers["ApplicationLoadBalancer"], "LoadBalancerAttributes")
    assert web["idle_timeout.timeout_seconds"] == "90"
    (raw,) = (each for each in resources(plan, "Listener").values() if each["Protocol"] == "TCP")
    assert attributes(raw, "ListenerAttributes") == {"tcp.idle_timeout.seconds": "3600"}


def test_ipv6_targets_ask_for_a_dual_stack() -> None:
    plan = plan_of(pools={"app": {"endpoints": [{"address": "[2001:db8::1]:80"}]}})
    (balancer,) = resources(plan, "LoadBalancer").values()
    (group,) = resources(plan, "TargetGroup").values()
    assert (balancer["IpAddressType"], group["IpAddressType"]) == ("dualstack", "ipv6")


@pytest.mark.parametrize(
    "match",
    [
        {"path": {"prefix": "/" + "x" * 200}},
        {"path": {"prefix": "/a"}, "query": {x: {"present": True} for x in "abc"}},  # seven wildcards
        {"headers": {"x" * 41: "1"}},
    ],
)
def test_values_beyond_the_quotas_are_refused(match: dict[str, Any]) -> None:
    assert not is_taken(plan_of(routes=[{"name": "a", "match": [match], "forward": "app"}]))


def test_hosts_without_a_dot_are_refused() -> None:
    assert not is_taken(plan_of(routes=[{"name": "a", "hosts": ["localhost"], "forward": "app"}]))


def test_rules_are_within_the_quotas() -> None:
    for plan in [*expressible(), *drawn(10)]:
        priorities: dict[str, list[int]] = {}
        for rule in resources(plan, "ListenerRule").values():
            priorities.setdefault(rule["ListenerArn"]["Ref"], []).append(rule["Priority"])
            configs = [value for each in rule["Conditions"] for key, value in each.items() if key.endswith("Config")]
            values = [each.get("Values") or each["RegexValues"] for each in configs]
            plain = [str(value) for each in configs for value in each.get("Values", [])]
            assert max(map(len, values)) <= 3
            assert sum(map(len, values)) <= 5
            assert len(re.findall(r"(?<!\\)[*?]", " ".join(plain))) <= 5
        assert all(sorted(each) == list(range(1, len(each) + 1)) for each in priorities.values())


def test_certificates_of_the_topology_need_no_parameters(tmp_path: Path) -> None:
    write_self_signed(tmp_path / "a.crt", tmp_path / "a.key", ("a.example",))
    pair = {"cert": str(tmp_path / "a.crt"), "key": str(tmp_path / "a.key")}
    arns = [f"arn:aws:acm:eu-west-1:111122223333:certificate/{name}" for name in ("one", "two", "three")]
    listeners = {"web": {"port": 443, "tls": {"certificates": [pair]}}}
    plan = plan_of(listeners=listeners, engines={"aws": {"certificate_arns": {"web": arns}}})
    assert not any(name.startswith("Certificate") for name in template(plan)["Parameters"])
    (listener,) = resources(plan, "Listener").values()
    (others,) = resources(plan, "ListenerCertificate").values()
    assert listener["Certificates"] == [{"CertificateArn": arns[0]}]
    assert others["Certificates"] == [{"CertificateArn": arn} for arn in arns[1:]]


def test_a_prefix_is_one_pattern_where_a_rule_would_need_too_many_values() -> None:
    match = {"path": {"prefix": "/api"}, "methods": ["GET", "HEAD", "POST", "PUT"], "headers": {"x-canary": "1"}}
    rules = resources(plan_of(routes=[{"name": "a", "match": [match], "forward": "app"}]), "ListenerRule").values()
    paths = [each["Conditions"][0]["PathPatternConfig"] for each in rules if each["Priority"] > 1]
    assert paths == [{"RegexValues": ["^/api(/.*)?$"]}] * 2


def test_a_port_has_one_layer_4_listener() -> None:
    listeners = {"tcp": {"port": 53, "mode": "l4"}, "udp": {"port": 53, "mode": "l4", "protocol": "udp"}}
    routes = [{"name": name, "listeners": [name], "forward": "app"} for name in listeners]
    assert refusals(plan_of(listeners=listeners, routes=routes)) == ["listeners.udp.port"]


ENDPOINTS = [{"address": "10.0.0.1:80"}]
LAYER_4 = {
    "listeners": {"tcp": {"port": 81, "mode": "l4"}},
    "routes": [{"name": "a", "listeners": ["tcp"], "forward": "app"}],
}


@pytest.mark.parametrize(
    ("field", "topology"),
    [
        ("slow_start", {"pools": {"app": {"endpoints": ENDPOINTS, "slow_start": "30s", "balance": "random"}}}),
        ("endpoints[0].address", {"pools": {"app": {"endpoints": [{"address": "127.0.0.1:80"}]}}}),
        (
            "health.active.expect",
            {"pools": {"app": {"endpoints": ENDPOINTS, "health": {"active": {"path": "/", "expect": ["200-599"]}}}}},
        ),
        ("protocol", {"pools": {"app": {"endpoints": ENDPOINTS, "protocol": "grpc"}}}),
        ("tls", {**LAYER_4, "pools": {"app": {"endpoints": ENDPOINTS, "tls": {"verify": False}}}}),
    ],
)
def test_what_the_api_does_not_take_is_refused(field: str, topology: dict[str, Any]) -> None:
    assert refusals(plan_of(**topology)) == [f"pools.app.{field}"]


@pytest.mark.parametrize(("routes", "count"), [(99, None), (100, 101)])
def test_a_load_balancer_has_a_hundred_rules(routes: int, count: int | None) -> None:
    many = [{"name": f"r{n}", "match": [{"path": {"exact": f"/{n}"}}], "forward": "app"} for n in range(routes)]
    every = objections(plan_of(routes=many))
    notes = [each.verdict.note for each in every if each.feature == "listener.l7"]
    assert notes == (
        [] if count is None else [f"it needs {count} rules, and a load balancer has 100 until the quota is raised"]
    )


def test_hosts_of_a_route_share_rules() -> None:
    hosts = ["a.example", "b.example", "*.c.example"]
    match = [{"path": {"prefix": "/x"}}, {"path": {"prefix": "/yy"}}]
    rules = resources(plan_of(routes=[{"name": "a", "hosts": hosts, "match": match, "forward": "app"}]), "ListenerRule")
    found = [each["Conditions"][0]["HostHeaderConfig"]["Values"] for each in rules.values() if each["Priority"] > 1]
    assert found == [["a.example", "b.example"], ["a.example", "b.example"], ["*.c.example"], ["*.c.example"]]
