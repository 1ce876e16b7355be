"""The real Envoy: no client gets past a rule by another spelling of a path, an address or a forwarded field."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen.conformance.http1_client import Answer, exchange
from lbgen.conformance.own_answers import account_of
from lbgen.engines.envoy import ENGINE
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from tests.support.engine_lists import need_binary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = pytest.mark.engines
# ruff: noqa: E501
TOPOLOGY = """
version: 1
name: safety
listeners:
  plain: {{ address: 127.0.0.1, port: {plain} }}
  behind: {{ address: 127.0.0.1, port: {behind}, proxy_protocol: accept, access: {{ deny: [192.0.2.0/24] }} }}
  trusting: {{ address: 127.0.0.1, port: {trusting}, trusted_proxies: [127.0.0.1/32] }}
  both: {{ address: 127.0.0.1, port: {both}, proxy_protocol: accept, trusted_proxies: [127.0.0.0/8] }}
  tcp: {{ address: 127.0.0.1, port: {tcp}, mode: l4, proxy_protocol: accept, access: {{ deny: [192.0.2.0/24] }} }}
pools:
  p: {{ endpoints: [{{ address: "127.0.0.1:{endpoint}" }}] }}
  raw: {{ endpoints: [{{ address: "127.0.0.1:{endpoint}" }}] }}
routes:
  - {{ name: admin, listeners: [plain, behind, trusting], match: [{{ path: {{ prefix: /admin }} }}], forward: p, access: {{ allow: [10.0.0.0/8] }} }}
  - {{ name: once, listeners: [behind, trusting], match: [{{ path: {{ prefix: /once }} }}], forward: p,
       rate_limit: {{ rate: 1/m, burst: 1, key: client_ip }} }}
  - {{ name: inside, listeners: [trusting, both], match: [{{ headers: {{ x-forwarded-for: {{ regex: "10\\\\..*" }} }} }}],
       respond: {{ status: 204 }} }}
  - {{ name: secure, listeners: [trusting, both], match: [{{ headers: {{ x-forwarded-proto: https }} }}], respond: {{ status: 204 }} }}
  - {{ name: id, listeners: [trusting, both], match: [{{ headers: {{ x-request-id: mine }} }}], respond: {{ status: 204 }} }}
  - {{ name: rest, listeners: [plain, behind, trusting, both], forward: p }}
  - {{ name: tcp, listeners: [tcp], sources: [198.51.100.0/24, 192.0.2.0/24], forward: raw }}
"""
LISTENERS = ("plain", "behind", "trusting", "both", "tcp", "endpoint")


@pytest.fixture(scope="module")
def envoy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    binary = need_binary(ENGINE.name)
    ports: dict[str, int] = {}
    for name in LISTENERS:
        ports[name] = free_port("127.0.0.1", taken=frozenset(ports.values()))
    file: Path = tmp_path_factory.mktemp("safety") / "topology.yaml"
    file.write_text(TOPOLOGY.format(**ports), encoding="utf-8")
    stand_in = StandIn("e", "p", "127.0.0.1", ports["endpoint"])
    with ExitStack() as stack:
        stack.enter_context(stand_in_servers((stand_in,)))
        yield stack.enter_context(run_engine(ENGINE, lbgen.plan(lbgen.load(file)), binary, accept=("all",)))


def ask(envoy: EngineProcess, listener: str, path: str, *fields: str, peer: str = "", client: str = "") -> Answer:
    """`peer` is that of a PROXY header, `client` a loopback address to come from."""
    family = "TCP6 {} ::1" if ":" in peer else "TCP4 {} 127.0.0.1"
    proxy = f"PROXY {family.format(peer)} 1 2\r\n" if peer else ""
    head = "".join(f"{each}\r\n" for each in (f"GET {path} HTTP/1.1", "Host: h", "Connection: close", *fields))
    return exchange(envoy.address(listener), f"{proxy}{head}\r\n".encode(), client=client)


# Each of them leads, as some server reads it, to /admin or away from it.
@pytest.mark.parametrize(
    "path",
    [
        *(
            "/public/../admin/x",
            "/public/%2e%2e/admin/x",
            "/public/.%2E/admin",
            "/public/..%2fadmin",
            "/public%2f..%2fadmin",
        ),
        *("/admin/..%2fpublic/x", "/%61dmin", "//admin", "/./admin", "/public/..%5cadmin", "/public/..\\admin"),
        *(
            "/%2%65%2%65/admin",
            "/admin%00",
            "/%zz",
            "/%",
            "/a%0a",
            "/a%1f",
            "/a%7F",
            "/%2%46admin",
            "http://h/x/../admin",
        ),
    ],
)
def test_a_rule_and_the_endpoint_see_one_path(envoy: EngineProcess, path: str) -> None:
    answer = ask(envoy, "plain", path)
    if answer.status == 200:
        account = account_of(answer)
        assert account is not None
        assert not account["target"].startswith("/admin")
        assert not [odd for odd in ("//", "/.", "%2e", "%2f", "%5c", "\\") if odd in account["target"].lower()]
    else:
        assert answer.status is not None, answer
        assert 400 <= answer.status < 500


def test_a_query_passes_as_it_came(envoy: EngineProcess) -> None:
    account = account_of(ask(envoy, "plain", "/q?a=..%2f//%2e"))
    assert account is not None
    assert account["target"] == "/q?a=..%2f//%2e"


@pytest.mark.parametrize(
    ("listener", "path", "peer", "status"),
    [
        ("behind", "/x", "192.0.2.7", 403),
        ("behind", "/x", "::ffff:192.0.2.7", 403),
        ("behind", "/x", "::ffff:198.51.100.7", 200),
        ("behind", "/admin", "::ffff:10.1.2.3", 200),
        ("behind", "/admin", "::ffff:11.1.2.3", 403),
        ("tcp", "/x", "192.0.2.7", None),
        ("tcp", "/x", "::ffff:192.0.2.7", None),
        ("tcp", "/x", "::ffff:198.51.100.7", 200),
        ("tcp", "/x", "::ffff:203.0.113.7", None),
    ],
)
def test_a_mapped_address_is_the_ipv4_address(
    envoy: EngineProcess, listener: str, path: str, peer: str, status: int | None
) -> None:
    assert ask(envoy, listener, path, peer=peer).status == status


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ("10.1.2.3", 200),
        ("::ffff:10.1.2.3", 200),
        ("10.1.2.3, ::ffff:127.0.0.1", 200),
        ("::ffff:11.1.2.3", 403),
        ("11.1.2.3,::ffff:127.0.0.1", 403),
        ("10.9.9.9, 11.1.2.3, ::ffff:127.0.0.1", 403),
    ],
)
def test_a_mapped_address_of_a_trusted_proxy_is_the_ipv4_address(envoy: EngineProcess, value: str, status: int) -> None:
    assert ask(envoy, "trusting", "/admin", f"X-Forwarded-For: {value}").status == status


def test_a_mapped_address_has_the_bucket_of_the_ipv4_address(envoy: EngineProcess) -> None:
    for listener, one in (("behind", {"peer": "198.51.100.9"}), ("behind", {"peer": "2001:db8::9"})):
        assert ask(envoy, listener, "/once", **one).status == 200
        assert ask(envoy, listener, "/once", **one).status == 429
    assert ask(envoy, "behind", "/once", peer="::ffff:198.51.100.9").status == 429
    assert ask(envoy, "behind", "/once", peer="::ffff:198.51.100.10").status == 200
    assert ask(envoy, "trusting", "/once", "X-Forwarded-For: ::ffff:198.51.100.11").status == 200
    assert ask(envoy, "trusting", "/once", "X-Forwarded-For: 198.51.100.11").status == 429


@pytest.mark.parametrize("forged", ["X-Forwarded-For: 10.0.0.1", "X-Forwarded-Proto: https", "X-Request-Id: mine"])
@pytest.mark.parametrize(
    ("listener", "trusted", "untrusted"),
    [
        ("trusting", {"client": "127.0.0.1"}, {"client": "127.0.0.2"}),
        ("both", {"peer": "127.1.2.3"}, {"peer": "9.9.9.9"}),
    ],
)
def test_rules_see_forwarded_fields_of_trusted_peers_alone(
    envoy: EngineProcess, forged: str, listener: str, trusted: dict[str, str], untrusted: dict[str, str]
) -> None:
    assert ask(envoy, listener, "/", forged, **trusted).status == 204
    for fields in ([forged], [forged, forged], [forged, "x-lbgen-proto: https", "x-lbgen-peer: 127.0.0.1"]):
        answer = ask(envoy, listener, "/", *fields, **untrusted)
        account = account_of(answer)
        assert account is not None, answer
        sent = dict(account["headers"])
        assert sent["x-forwarded-for"] == next(iter(untrusted.values()))
        assert (sent["x-forwarded-proto"], sent["x-request-id"] == "mine") == ("http", False)
        assert not [name for name in sent if name.startswith("x-lbgen")]


@pytest.mark.parametrize(
    "fields",
    [
        ["TRACE / HTTP/1.1"],
        ["CONNECT h:80 HTTP/1.1"],
        ["trace / HTTP/1.1"],
        ["GET / HTTP/1.1", "Host: other"],
        ["POST / HTTP/1.0", "Transfer-Encoding: chunked", "Connection: keep-alive"],
    ],
)
def test_what_no_endpoint_may_get_is_refused(envoy: EngineProcess, fields: list[str]) -> None:
    head = "".join(f"{each}\r\n" for each in (*fields, "Host: h"))
    answer = exchange(envoy.address("plain"), f"{head}\r\n".encode())
    assert answer.status is not None
    assert 400 <= answer.status < 500


@pytest.mark.parametrize("name", ["X-Forwarded-For", "X-Forwarded-Host", "X-Request-Id"])
def test_connection_hides_no_field_of_the_proxy(envoy: EngineProcess, name: str) -> None:
    head = f"GET / HTTP/1.1\r\nHost: h\r\nConnection: close, {name}\r\n{name}: a\r\n\r\n"
    answer = exchange(envoy.address("plain"), head.encode())
    account = account_of(answer)
    if account is not None:
        sent = dict(account["headers"])
        assert sent[name.lower()] not in ("", "a")
    else:
        assert answer.status is not None
        assert 400 <= answer.status < 500
