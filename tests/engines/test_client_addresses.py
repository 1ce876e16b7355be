"""Who a client is: an IPv6-mapped address is its IPv4 address, and what proxies say counts from trusted ones alone.

Other spellings of paths, fields and hosts are in the corpus of tests/conformance/test_safety.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.http1_client import Answer, exchange
from lbgen.conformance.own_answers import account_of
from tests.support.engine_lists import L7_ENGINES, newest_first
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = pytest.mark.engines
PROXY, STRANGER = "127.0.0.1", "127.0.0.2"
# What proxies say, each with a value that leads to a rule of its own.
FORWARDED = {
    "x-forwarded-for": "10.1.2.3",
    "x-forwarded-host": "inside.example",
    "x-forwarded-proto": "https",
    "x-forwarded-port": "8443",
    "x-request-id": "mine",
}
STATED = {"proxy_protocol": "accept", "access": {"deny": ["::ffff:192.0.2.0/120"]}}
INSIDE = {"access": {"allow": ["10.0.0.0/8"]}}
ONCE = {"rate_limit": {"rate": "1/m", "key": "client_ip"}}
KEYED = {"rate_limit": {"rate": "1/m", "key": {"header": "x-request-id"}}}
TOPOLOGY = {
    "version": 1,
    "name": "clients",
    "listeners": {
        "stated": {"port": 8080, **STATED},
        "trusting": {"port": 8081, "trusted_proxies": ["127.0.0.1/32", "::ffff:127.0.1.0/120"]},
        "tcp": {"port": 8082, "mode": "l4", **STATED},
    },
    "pools": {name: {"endpoints": [{"address": f"10.0.0.{n}:80"}]} for n, name in enumerate(("p", "ruled", "raw"), 1)},
    "routes": [
        {"name": "admin", "match": [{"path": {"prefix": "/admin"}}], "forward": "p", **INSIDE},
        {"name": "keyed", "match": [{"path": {"prefix": "/keyed"}}], "forward": "p", **KEYED},
        {"name": "once", "match": [{"path": {"prefix": "/once"}}], "forward": "p", **ONCE},
        *(
            {
                "name": name,
                "match": [{"path": {"prefix": "/"}, "headers": {name: value}}],
                "listeners": ["trusting"],
                "forward": "ruled",
            }
            for name, value in FORWARDED.items()
        ),
        {"name": "rest", "forward": "p"},
        {"name": "tcp", "listeners": ["tcp"], "sources": ["198.51.100.0/24", "192.0.2.0/24"], "forward": "raw"},
    ],
}


@pytest.fixture(scope="module", params=newest_first(engines_on_host(L7_ENGINES)))
def served(request: pytest.FixtureRequest) -> Iterator[EngineProcess]:
    with serving(TOPOLOGY, request.param) as (_, _, handle):
        yield handle


def ask(handle: EngineProcess, listener: str, path: str, *fields: str, peer: str = "", client: str = "") -> Answer:
    """`peer` is that of a PROXY header, `client` a loopback address to come from."""
    family = "TCP6 {} ::1" if ":" in peer else "TCP4 {} 127.0.0.1"
    proxy = f"PROXY {family.format(peer)} 1000 80\r\n" if peer else ""
    head = "".join(f"{each}\r\n" for each in (f"GET {path} HTTP/1.1", "Host: h", *fields))
    return exchange(handle.address(listener), f"{proxy}{head}\r\n".encode(), client=client)


@pytest.mark.parametrize(
    ("listener", "path", "peer", "status"),
    [
        ("stated", "/x", "192.0.2.7", 403),
        ("stated", "/x", "::ffff:192.0.2.7", 403),
        ("stated", "/x", "::ffff:198.51.100.7", 200),
        ("stated", "/admin", "::ffff:10.1.2.3", 200),
        ("stated", "/admin", "::ffff:11.1.2.3", 403),
        ("tcp", "/x", "192.0.2.7", None),
        ("tcp", "/x", "::ffff:192.0.2.7", None),
        ("tcp", "/x", "::ffff:198.51.100.7", 200),
        ("tcp", "/x", "::ffff:203.0.113.7", None),
    ],
)
def test_of_a_proxy_header(served: EngineProcess, listener: str, path: str, peer: str, status: int | None) -> None:
    assert ask(served, listener, path, peer=peer).status == status


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("10.1.2.3", 200),
        ("::ffff:10.1.2.3", 200),
        ("::FFFF:0a01:203", 200),
        ("10.1.2.3, ::ffff:127.0.1.9", 200),
        ("::ffff:11.1.2.3", 403),
        ("10.9.9.9, 11.1.2.3, ::ffff:127.0.1.9", 403),
    ],
)
def test_of_a_trusted_proxy(served: EngineProcess, value: str, status: int) -> None:
    assert ask(served, "trusting", "/admin", f"X-Forwarded-For: {value}", client=PROXY).status == status
    assert ask(served, "trusting", "/admin", f"X-Forwarded-For: {value}", client=STRANGER).status == 403


def test_a_rate_is_that_of_the_ipv4_address(served: EngineProcess) -> None:
    peers = ("198.51.100.9", "::ffff:198.51.100.9", "::ffff:198.51.100.10", "198.51.100.10", "2001:db8::9")
    assert [ask(served, "stated", "/once", peer=peer).status for peer in peers] == [200, 429, 200, 429, 200]
    values = ("::ffff:198.51.100.11", "198.51.100.11", "198.51.100.12")
    asked = [ask(served, "trusting", "/once", f"X-Forwarded-For: {value}", client=PROXY) for value in values]
    assert [each.status for each in asked] == [200, 429, 200]


@pytest.mark.parametrize("name", FORWARDED)
def test_rules_see_fields_of_trusted_proxies_alone(served: EngineProcess, name: str) -> None:
    def pool(*fields: str, client: str) -> str:
        account = account_of(ask(served, "trusting", "/", *fields, client=client))
        return account["pool"] if account is not None else "refused"

    forged = f"{name}: {FORWARDED[name]}"
    assert pool(forged, client=PROXY) == "ruled"
    assert pool(client=STRANGER) == "p"
    for fields in ([forged], [forged, forged], [forged, "x-lbgen-proto: https", f"x-lbgen-peer: {PROXY}"]):
        assert pool(*fields, client=STRANGER) in ("p", "refused"), fields
    assert pool(forged, f"Connection: close, {name}", client=STRANGER) in ("p", "refused")


def test_keys_see_fields_of_trusted_proxies_alone(served: EngineProcess) -> None:
    """A client that invents a request ID is counted under none, which is no limit, as with the field left out."""
    if "keyed" not in {route.name for route in served.plan.routes}:
        pytest.skip("this engine refuses a request ID as a key")
    asked = [ask(served, "trusting", "/keyed", "X-Request-Id: one", client=who) for who in (STRANGER, PROXY) * 2]
    assert [each.status for each in asked] == [200, 200, 200, 429]
