"""Versions that lbgen does not know: newer ones get the files for the newest older one and a warning."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.engines.api import engine, target_version
from lbgen.engines.verdicts import judge, unknown_version, unknown_versions
from lbgen.spec.load import load

TOPOLOGY = {
    "version": 1,
    "name": "v",
    "listeners": {"web": {"port": 8080}},
    "routes": [{"name": "all", "respond": {"status": 200}}],
}


def test_a_newer_version_gets_the_newest_known_ones_files() -> None:
    nginx, haproxy = engine("nginx"), engine("haproxy")
    assert target_version(nginx, "1.99") == target_version(nginx, "2.0.1") == "1.31"
    assert target_version(nginx, "1.31.99") == "1.31"
    assert target_version(nginx, "1.23.4") == "1.22"
    assert target_version(nginx, "1.28.2") == "1.26"
    assert target_version(haproxy, "2.7") == "2.6"
    assert target_version(haproxy, "3.4.1") == "3.2"
    with pytest.raises(lbgen.UsageError, match=r"haproxy 1\.8 is not supported; one of: 2\.8, "):
        target_version(haproxy, "1.8")


def test_a_version_that_is_not_known_gets_a_warning() -> None:
    assert list(unknown_version(engine("nginx"), "1.31.99")) == []
    (warning,) = unknown_version(engine("nginx"), "1.99.1")
    assert (warning.code, warning.severity) == ("LB307", "warning")
    assert "does not know nginx 1.99.1, which gets the files for 1.31" in warning.message


def test_the_warning_names_the_field_of_the_topology() -> None:
    plan = lbgen.plan(load({**TOPOLOGY, "engines": {"nginx": {"version": "1.99"}, "haproxy": {"version": "2.8"}}}))
    (warning,) = unknown_versions(plan)
    assert warning.field == "engines.nginx.version"
    assert lbgen.render(plan, "nginx").version == "1.31"


def refusals(name: str, version: str, topology: dict[str, object]) -> list[tuple[str, str]]:
    """Field and message of what stops that version."""
    return [
        (x.field, x.message) for x in judge(lbgen.plan(load(topology)), engine(name), version)[1] if x.code == "LB301"
    ]


BUFFERED = {
    **TOPOLOGY,
    "listeners": {"web": {"port": 8080, "trusted_proxies": ["10.0.0.0/8"], "access": {"deny": ["192.0.2.1"]}}},
    "pools": {"p": {"balance": "source_hash", "endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [{"name": "all", "forward": "p", "buffering": {"request": True}, "retries": {"max": 1, "on": ["reset"]}}],
}


def test_envoy_1_37_refuses_what_it_would_do_otherwise() -> None:
    assert [field for field, _ in refusals("envoy", "1.37", BUFFERED)] == ["routes[0].retries"]
    assert refusals("envoy", "1.38", BUFFERED) == []


def test_traefik_3_6_refuses_retries() -> None:
    retried = {**BUFFERED, "listeners": {"web": {"port": 8080}}}
    ((field, message),) = refusals("traefik", "3.6", retried)
    assert field == "routes[0].retries"
    assert "3.7" in message
    assert refusals("traefik", "3.7", retried) == []


def test_haproxy_from_3_0_on_takes_keys_from_other_folders() -> None:
    certificate = {"cert": "/certs/a.pem", "key": "/keys/a.pem", "names": ["a.example"]}
    topology = {**TOPOLOGY, "listeners": {"web": {"port": 8443, "tls": {"certificates": [certificate]}}}}
    ((field, message),) = refusals("haproxy", "2.8", topology)
    assert field == "listeners.web.tls.certificates[0]"
    assert "/certs/a.pem.key" in message
    assert refusals("haproxy", "3.0", topology) == []
    unsafe = {**certificate, "key": "/keys/a b.pem"}
    topology["listeners"] = {"web": {"port": 8443, "tls": {"certificates": [unsafe]}}}
    assert [where for where, _ in refusals("haproxy", "3.0", topology)] == [field]
    topology["listeners"] = {"web": {"port": 8443, "tls": {"certificates": [certificate]}}}
    topology["engines"] = {"haproxy": {"version": "3.0"}}
    text = lbgen.render(load(topology), engine="haproxy", accept=("all",))["haproxy.cfg"]
    assert "\ncrt-store\n    load crt /certs/a.pem key /keys/a.pem\n" in text
