"""Traefik's real binary: no spelling of a path, form of an address or forged field passes a rule."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.conformance.http1_client import exchange, fetch
from lbgen.conformance.own_answers import account_of
from lbgen.conformance.transport import Transport
from lbgen.engines.traefik import ENGINE
from lbgen.plan.request import Request
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.http1_client import Answer
    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not candidates(ENGINE), reason="no traefik here")]
HOST = "127.0.0.1"
PORTS = 23_600
MAPPED = b"PROXY TCP6 ::ffff:192.0.2.7 ::ffff:192.0.2.9 1000 80\r\n"


@contextmanager
def serving(listeners: dict[str, Any], routes: list[dict[str, Any]], **listener: Any) -> Iterator[EngineProcess]:
    """These listeners and routes in front of pools `p` (HTTP) and `q` (TCP); further fields are of each L7 listener."""
    taken: set[int] = set()

    def port() -> int:
        taken.add(free_port(HOST, PORTS, frozenset(taken)))
        return max(taken)

    stand_ins = [StandIn(pool, pool, HOST, port()) for pool in ("p", "q")]
    for each in listeners.values():
        each |= {"address": HOST, "port": port()}
        if each.get("mode") != "l4":
            each |= listener
    topology = {
        "version": 1,
        "name": "safe",
        "listeners": listeners,
        "pools": {each.pool: {"endpoints": [{"address": f"{HOST}:{each.port}"}]} for each in stand_ins},
        "routes": routes,
    }
    plan = lbgen.plan(lbgen.load(topology))
    with stand_in_servers(stand_ins), run_engine(ENGINE, plan, accept=("all",)) as handle:
        yield handle


def ask(handle: EngineProcess, target: str, *headers: tuple[str, str], listener: str = "web", **more: Any) -> Answer:
    return fetch(handle.address(listener), Request("GET", target, (("Host", "h"), *headers), **more))


def ask_as_mapped(handle: EngineProcess, target: str, listener: str = "web", proxy: bytes = MAPPED) -> Answer:
    sent = f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode()
    return exchange(handle.address(listener), sent, method="GET", transport=Transport(proxy=proxy))


def rule(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "match": [{"path": {"prefix": path}}], "forward": "p", **more}


@pytest.fixture(scope="module")
def guarded() -> Iterator[EngineProcess]:
    closed = {"access": {"allow": ["10.0.0.0/8"]}}
    with serving({"web": {}}, [rule("admin", "/admin", **closed), rule("public", "/public")]) as handle:
        yield handle


@pytest.mark.parametrize(
    "target",
    [
        "/public/..%2fadmin/x",
        "/public/..%2Fadmin/x",
        "/public/%2e%2e%2fadmin/x",
        "/public/../admin/x",
        "/public/%2e%2e/admin/x",
        "/public/.%2e/admin/x",
        "/public//../admin/x",
        "//admin/x",
        "/./admin/x",
        "/%61dmin/x",
        "/public/..%5cadmin/x",
        "/public/..\\admin/x",
        "/public/%00/../../admin/x",
        "http://h/public/..%2fadmin/x",
    ],
)
def test_no_spelling_of_a_path_passes_its_rule(guarded, target):
    answer = ask(guarded, target)
    assert account_of(answer) is None
    assert answer.status is None or 400 <= answer.status < 500


@pytest.mark.parametrize("target", ["/admin%0ax", "/admin%09x", "/admin%7fx", "/public/%01"])
def test_escapes_of_control_characters_are_refused(guarded, target):
    assert ask(guarded, target).status == 400


@pytest.mark.parametrize(
    ("host", "status"),
    [("h.example:80:80", 400), ("[::1", 400), ("a,b", 400), ("[::1]", 200), ("[::1]:80", 200), ("::ffff:1.2.3.4", 200)],
)
def test_a_host_is_a_name_or_an_address(guarded, host, status):
    assert fetch(guarded.address("web"), Request("GET", "/public/x", (("Host", host),))).status == status


@pytest.mark.parametrize("escape", ["%25", "%3B", "%3F", "%23", "%20", "%C3%A9"])
def test_other_escapes_reach_the_endpoint(guarded, escape):
    account = account_of(ask(guarded, f"/public/a{escape}b"))
    assert account is not None
    assert account["target"] == f"/public/a{escape}b"


def test_a_path_that_is_resolved_is_the_one_that_the_rules_saw(guarded):
    account = account_of(ask(guarded, "/admin/../public//%61/./b"))
    assert account is not None
    assert account["target"] == "/public/a/b"


def test_a_mapped_address_of_a_proxy_header_is_the_address():
    denied = {"access": {"deny": ["192.0.2.0/24"]}}
    allowed = {"access": {"allow": ["192.0.2.0/24"]}}
    rate = {"rate": "1/h", "burst": 1, "key": "client_ip"}
    listeners = {
        "web": {},
        "denied": dict(denied),
        "allowed": dict(allowed),
        "tcp": {"mode": "l4", "proxy_protocol": "accept", **denied},
        "tcp-allowed": {"mode": "l4", "proxy_protocol": "accept", **allowed},
        "sources": {"mode": "l4", "proxy_protocol": "accept"},
    }
    routes = [
        {**rule("denied", "/denied", **denied), "listeners": ["web"]},
        {**rule("allowed", "/allowed", **allowed), "listeners": ["web"]},
        {**rule("limited", "/limited", rate_limit=rate), "listeners": ["web"]},
        {"name": "all", "listeners": ["denied", "allowed"], "forward": "p"},
        {"name": "tcp", "listeners": ["tcp", "tcp-allowed"], "forward": "q"},
        {"name": "near", "listeners": ["sources"], "sources": ["192.0.2.0/24"], "forward": "q"},
    ]
    with serving(listeners, routes, proxy_protocol="accept") as handle:
        assert ask_as_mapped(handle, "/denied").status == 403
        assert ask_as_mapped(handle, "/allowed").status == 200
        assert ask_as_mapped(handle, "/", "denied").status == 403
        assert ask_as_mapped(handle, "/", "allowed").status == 200
        assert ask_as_mapped(handle, "/", "tcp").status is None
        assert ask_as_mapped(handle, "/", "tcp-allowed").status == 200
        assert ask_as_mapped(handle, "/", "sources").status == 200
        plain = MAPPED.replace(b"::ffff:", b"").replace(b"TCP6", b"TCP4")
        assert ask_as_mapped(handle, "/limited").status == 200
        assert ask_as_mapped(handle, "/limited", proxy=plain).status == 429


def test_rules_see_forwarded_fields_of_trusted_proxies_alone():
    names = {
        "x-forwarded-for": "10.1.2.3",
        "x-forwarded-host": "shop.example",
        "x-forwarded-proto": "https",
        "x-forwarded-port": "8443",
        "x-request-id": "chosen",
    }
    routes = [
        {"name": name, "match": [{"path": {"prefix": "/"}, "headers": {name: value}}], "forward": "p"}
        for name, value in names.items()
    ]
    # What Traefik itself sets for clients that are no proxies.
    routes += [
        {
            "name": "set-proto",
            "match": [{"path": {"prefix": "/"}, "headers": {"x-forwarded-proto": "http"}}],
            "forward": "p",
        },
        {
            "name": "set-host",
            "match": [{"path": {"prefix": "/"}, "headers": {"x-forwarded-host": "h"}}],
            "forward": "p",
        },
    ]
    with serving({"web": {}}, routes, trusted_proxies=["127.0.0.2/32", "127.0.0.4/32"]) as handle:
        for name, value in names.items():
            assert ask(handle, "/", (name, value), client="127.0.0.4").status == 200, name
            assert ask(handle, "/", (name, value)).status == 404, name
            hidden = ("Connection", f"close, {name}")
            assert ask(handle, "/", (name, value), hidden).status == 404, name
        assert ask(handle, "/").status == 404


def test_what_browsers_send_raw_passes_escaped_in_paths_and_as_it_is_in_queries(guarded):
    account = account_of(ask(guarded, "/public/a|{b}^c?q=|{}^`"))
    assert account is not None
    assert account["target"] == "/public/a%7C%7Bb%7D%5Ec?q=|{}^`"
