"""The index of L4 rules finds what trying all rules finds; that of L7 rules is in tests/property."""

from __future__ import annotations

import random
from ipaddress import ip_address, ip_network

import pytest

from lbgen.plan.matching import covers_host
from lbgen.plan.model import HostPattern, L4Rule, Listener, Mode, Plan, Protocol, Route
from lbgen.plan.rule_index import l4_index, rule_index
from lbgen.plan.simulate import simulate_l4
from tests.support.plans import forward

NAMES = (None, *(HostPattern(name, wildcard) for name in ("a.test", "b.a.test", "test") for wildcard in (False, True)))
SOURCES = ("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "2001:db8::/32", "::/0", "::1/128")
ACTION = forward("p")


@pytest.mark.parametrize("seed", range(20))
def test_l4_rules_by_name_and_source(seed: int) -> None:
    drawn = random.Random(seed)
    rules = tuple(
        L4Rule(f"r{n}", n, f"r{n}", drawn.choice(NAMES), tuple(drawn.sample(SOURCES, drawn.choice((0, 0, 1, 2)))), "")
        for n in range(8)
    )
    listener = Listener("db", "127.0.0.1", 5432, Mode.L4, Protocol.TCP, "", l4_rules=rules)
    plan = Plan("t", (listener,), (), tuple(Route(rule.route, 0, ACTION, "") for rule in rules))
    for sni in (None, "a.test", "x.a.test", "b.a.test", "c.b.a.test", "test", "other", "A.test."):
        for source in ("10.1.2.3", "10.1.9.9", "10.9.9.9", "192.0.2.1", "2001:db8::1", "::1"):
            name = sni and sni.lower().removesuffix(".")
            holding = (
                rule.id
                for rule in rules
                if covers_host(rule.sni, name)
                and (not rule.sources or any(ip_address(source) in ip_network(each) for each in rule.sources))
            )
            assert simulate_l4(plan, "db", sni, source).rule == next(holding, None), (sni, source)


def test_an_index_belongs_to_one_listener_and_is_built_once() -> None:
    one, other = (Listener("web", "127.0.0.1", 80, Mode.L7, Protocol.TCP, "") for _ in range(2))
    assert rule_index(one) is rule_index(one)
    assert rule_index(one) is not rule_index(other)
    assert l4_index(one) is l4_index(one)
