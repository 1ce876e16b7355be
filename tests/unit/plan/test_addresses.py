"""An IPv4-mapped IPv6 address is the IPv4 address, wherever addresses are compared."""

import pytest

from lbgen.plan import model as m
from lbgen.plan.addresses import client_ip, is_within
from lbgen.plan.policy import Access
from lbgen.plan.simulate import simulate_l4
from lbgen.spec.network import parse_cidr
from tests.support.plans import equals, forward, match
from tests.unit.plan.test_simulate import ROOT, ask, plan_of, sent

MAPPED = "::ffff:192.0.2.7"


def test_a_mapped_address_is_the_ipv4_address() -> None:
    assert str(client_ip(MAPPED)) == "192.0.2.7"
    assert is_within(MAPPED, ["192.0.2.0/24"])
    assert not is_within("2001:db8::7", ["192.0.2.0/24"])
    assert not Access(deny=("192.0.2.0/24",)).admits(MAPPED)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("::ffff:192.0.2.0/120", "192.0.2.0/24"), ("::ffff:192.0.2.7", "192.0.2.7/32"), ("::/0", "::/0")],
)
def test_a_network_of_mapped_addresses_is_an_ipv4_network(written: str, meant: str) -> None:
    assert parse_cidr(written) == meant


def test_sources_take_mapped_clients() -> None:
    rules = (m.L4Rule("s", 0, "s", None, ("192.0.2.0/24",), ""),)
    listener = m.Listener("db", "127.0.0.1", 5432, m.Mode.L4, m.Protocol.TCP, "", l4_rules=rules)
    plan = m.Plan("t", (listener,), (), (m.Route("s", 0, forward("p"), ""),))
    assert simulate_l4(plan, "db", source=MAPPED).pools == (("p", 1),)


def test_rules_see_forwarded_fields_of_trusted_proxies_alone() -> None:
    asked = match(ROOT, headers=(equals("x-forwarded-proto", "https"),))
    plan = plan_of(("secure", None, asked), ("all", None, ROOT), trusted_proxies=("10.0.0.0/8",))
    field = ("X-Forwarded-Proto", "https")
    assert ask(plan, "/", field, client="10.0.0.1").route == "secure"
    assert ask(plan, "/", field, client="::ffff:10.0.0.1").route == "secure"
    assert ask(plan, "/", field, client="192.0.2.7").route == "all"
    assert sent(ask(plan, "/", field, client="192.0.2.7"), "x-forwarded-proto") == "http"
