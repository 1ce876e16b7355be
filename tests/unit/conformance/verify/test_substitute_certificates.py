"""What `lbgen verify` asks of TLS: handshakes, server names of L4, and authorities of its own in place of others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from msgspec.structs import replace

import lbgen
from lbgen.conformance.curl import curl
from lbgen.conformance.transport import ClientTls, Transport
from lbgen.conformance.verify import faults
from lbgen.conformance.verify.cases import Phase
from lbgen.conformance.verify.handshakes import fingerprint, for_name, handshake_cases
from lbgen.conformance.verify.substitute_certificates import certify, stand_in_tls
from lbgen.plan.request import Request
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.standins.accept import tls_context

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

CLIENT = "198.51.100.7"
SHOP, WILD, EXACT = ({"cert": f"{x}.crt", "key": f"{x}.key"} for x in ("shop", "wildcard", "exact"))


def plan_of(listener: dict[str, Any], *, pool: dict[str, Any] | None = None, **route: Any) -> Plan:
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8443, **listener}},
        "pools": {"a": {"endpoints": [{"address": "10.0.0.1:443"}], **(pool or {})}},
        "routes": [{"name": "r", "forward": "a", **route}],
    }
    return lbgen.plan(replace(lbgen.load(data), base=temporary_certificates()))


def test_names_choose_certificates_as_in_the_contract() -> None:
    tls = plan_of({"tls": {"certificates": [SHOP, WILD, EXACT]}}).listener("web").tls
    assert tls is not None
    shop, wild, exact = tls.certificates
    assert for_name(tls, "in.wild.example") is exact
    assert for_name(tls, "any.wild.example") is wild
    assert for_name(tls, "deep.any.wild.example") is None
    assert for_name(tls, "www.shop.example") is shop
    assert for_name(replace(tls, certificates=(shop, shop)), "shop.example") is None


def test_handshakes_of_a_listener() -> None:
    listener = plan_of({"tls": {"certificates": [SHOP], "client": {"ca": "client-ca.crt"}}}).listener("web")
    assert listener.tls is not None
    found = list(handshake_cases(listener, Request()))
    told = {(case.clause, str(sorted(case.transport.tls.items(), key=str))): case.expect for case in found}  # type: ignore[union-attr]
    clauses = {clause for clause, _ in told}
    assert clauses == {
        "5.tls.sni",
        "5.tls.no-sni",
        "5.tls.unknown",
        "5.tls.version",
        "5.tls.policy",
        "5.tls.alpn",
        "5.tls.client",
    }
    named = [case.expect.tls for case in found if case.clause == "5.tls.sni"]
    assert named == [{"certificate": fingerprint(listener.tls.certificates[0])}] * 2
    assert sum(case.expect.unanswered for case in found if case.clause == "5.tls.client") == 2
    assert not list(handshake_cases(plan_of({}).listener("web"), Request()))


@pytest.mark.parametrize("absolute", [False, True])
def test_authorities_are_replaced_and_nothing_else(absolute: bool) -> None:
    ca = str(temporary_certificates() / "ca.crt") if absolute else "ca.crt"
    plan = plan_of({}, pool={"tls": {"ca": ca, "server_name": "backend.internal"}})
    with certify(plan) as given:
        tls = given.plan.pool("a").tls
        assert tls is not None
        assert tls.ca is not None
        ours = str(given.folder / "ca.crt")
        assert (tls.ca.path, tls.ca.source) == ((ours, None) if absolute else ("tls/ca.crt", ours))
        assert [str(new) for _, new in given.replacements] == [ours]
        shown = stand_in_tls(given.plan.pool("a"), given.folder)
        assert shown is not None
        tls_context(shown)
        for name in ("nginx", "haproxy", "envoy", "traefik"):
            before, after = (lbgen.render(each, name, ("all",)) for each in (plan, given.plan))
            assert {n: text.replace(ca, ours) if absolute else text for n, text in before.items()} == dict(after)
    assert not given.folder.exists()


def test_endpoints_show_the_certificate_of_another() -> None:
    plan = plan_of({}, pool={"tls": {"ca": "ca.crt", "server_name": "backend.internal"}})
    found = [x.case for x in faults.fault_cases(plan, CLIENT) if x.phase is Phase.FOREIGN]
    assert [case.expect.fault for case in found] == [502, 502]
    trusting = plan_of({}, pool={"tls": {"verify": False, "server_name": "backend.internal"}})
    found = [x.case for x in faults.fault_cases(trusting, CLIENT) if x.phase is Phase.FOREIGN]
    assert [case.expect.fault for case in found] == [None, None]


def test_server_names_of_bytes() -> None:
    plan = plan_of({"mode": "l4", "tls": {"mode": "passthrough"}}, listeners=["web"], hosts=["a.test", "*.a.test"])
    reach = [x.case.params for x in faults.fault_cases(plan, CLIENT) if x.case.script == "bytes_reach"]
    assert {params["sni"]: params["pools"] for params in reach} == {
        "a.test": ["a"],
        "x.a.test": ["a"],
        "lbgen-corpus.invalid": [],
        None: [],
    }


def test_a_line_for_curl_says_how_to_shake_hands() -> None:
    transport = Transport(tls=ClientTls(sni="shop.example", certificate="client", ca="ca.crt", max="1.2"))
    line = curl(("10.0.0.9", 8443), Request("GET", "/a", (("Host", "h"),)), transport)
    assert "--cacert ca.crt --tls-max 1.2 --cert client.crt --key client.key" in line
    assert line.endswith("--resolve shop.example:8443:10.0.0.9 https://shop.example:8443/a")


def test_endpoints_that_move_to_loopback_show_a_certificate_for_it() -> None:
    plan = plan_of({}, pool={"tls": {"ca": "ca.crt"}})
    with certify(plan) as given:
        shown = stand_in_tls(given.plan.pools[0], given.folder)
        assert shown is not None
        names = x509.load_pem_x509_certificate(Path(shown.certificate).read_bytes()).extensions
        found = names.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.IPAddress)
    assert [str(address) for address in found] == ["10.0.0.1", "127.0.0.1"]
