"""Backends and server lines of a HAProxy configuration."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbgen.engines.haproxy import ENGINE
from lbgen.plan.resolve import plan
from lbgen.spec.load import load


def planned(pool: dict | None = None, **route):
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}], **(pool or {})}},
        "routes": [
            {"name": "r", "forward": "p", **route},
            {"name": "s", "match": [{"path": {"prefix": "/s"}}], "forward": "p"},
        ],
    }
    return plan(load(data))


def config(pool: dict | None = None, **route) -> str:
    return ENGINE.render(planned(pool, **route), "2.8")[0].text


def servers(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("server ")]


def test_checks_are_made_once_for_all_backends_of_a_pool() -> None:
    text = config({"health": {"active": {"interval": "1s"}}}, retries={"max": 1, "on": [503]})
    assert sum(" check " in line for line in servers(text)) == 2
    assert sum(" track p/s" in line for line in servers(text)) == 2


def test_names_with_several_addresses_are_checked_in_each_backend() -> None:
    """A template's servers have names of their own, and none could say which of them another's tracks."""
    checked = {"endpoints": [{"address": "a.example:80"}], "health": {"active": {"path": "/up"}}}
    found = planned(checked, retries={"max": 1, "on": [503]})
    pools = tuple(replace(x, endpoints=tuple(replace(e, addresses=10) for e in x.endpoints)) for x in found.pools)
    text = ENGINE.render(replace(found, pools=pools), "2.8")[0].text
    assert (
        text.count("server-template s1- 10 a.example:80") == text.count(" check inter ") == text.count("httpchk") == 2
    )
    assert " track " not in text


def test_routes_share_a_backend_that_counts_and_keep_their_times() -> None:
    text = config(
        {"health": {"passive": {"failures": 3, "eject_for": "5s"}}}, timeouts={"response": "3s", "idle": "3s"}
    )
    assert text.count("\nbackend p") == 1
    assert "http-request set-timeout server 3s if { var(txn.route) -m str r }" in text or (
        "timeout server 3s" in text and "http-request set-timeout server" in text
    )


@pytest.mark.parametrize(
    ("addresses", "host"),
    [
        (["a.example:80"], "a.example:80"),
        (["a.example:80", "10.0.0.2:80"], "'%[srv_name,regsub(^s1$,a.example:80),regsub(^s2$,10.0.0.2:80)]'"),
    ],
)
def test_a_check_names_the_endpoint_that_it_asks(addresses: list[str], host: str) -> None:
    endpoints = [{"address": address} for address in addresses]
    text = config({"endpoints": endpoints, "health": {"active": {"path": "/up", "interval": "1s"}}})
    assert f"http-check send meth GET uri /up ver HTTP/1.1 hdr Host {host}\n" in text


def test_a_name_is_needed_to_verify_an_address() -> None:
    found = list(ENGINE.objections(planned({"tls": {"ca": "/etc/ca.crt"}}), "2.8"))
    assert [o.field for o in found] == ["pools.p.tls"]
    assert not list(ENGINE.objections(planned({"tls": {"ca": "/etc/ca.crt", "server_name": "x.example"}}), "2.8"))


def test_newer_versions_get_sections_of_different_names() -> None:
    """HAProxy 3.2 warns where a listener, a pool and a `defaults` share a name; 3.3 refuses that."""
    data = {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080}, "http": {"port": 8081, "mode": "l4"}},
        "pools": {name: {"endpoints": [{"address": "10.0.0.1:80"}]} for name in ("web", "http", "tcp")},
        "routes": [
            {"name": "r", "listeners": ["web"], "forward": "web"},
            {"name": "t", "listeners": ["web"], "match": [{"path": {"prefix": "/t"}}], "forward": "tcp"},
            {"name": "s", "listeners": ["http"], "forward": "http"},
        ],
    }
    kinds = ("frontend ", "backend ", "defaults ")
    for version, unique in (("2.8", False), ("3.0", False), ("3.2", True)):
        lines = ENGINE.render(plan(load(data)), version)[0].text.splitlines()
        names = [line.split()[1] for line in lines if line.startswith(kinds)]
        assert (len(names) == len(set(names))) is unique, version
    assert {"web", "web:1", "http:1", "tcp", "lbgen:tcp"} <= set(names)
