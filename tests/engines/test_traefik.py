"""Traefik's real binary with its plugin: times, what stands beside its listeners, changed files, and its checker."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

import lbgen
from lbgen.conformance.case import HANDSHAKE
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.http1_client import fetch
from lbgen.engines.traefik import ENGINE
from lbgen.plan.request import Request
from lbgen.runtime.local import check
from tests.support.engine_lists import need_binary
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.http1_client import Answer
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.engine_process import EngineProcess

pytestmark = pytest.mark.engines
ENDPOINT = {"endpoints": [{"address": "10.0.0.1:80"}]}
TIMES = {"client_header": "200ms", "client_body": "200ms", "keepalive": "5s"}


def topology(*routes: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": 1,
        "name": "bench",
        "access_log": "none",
        "listeners": {"web": {"port": 8080, "timeouts": TIMES}},
        "pools": {"p": ENDPOINT, "two": {"endpoints": [{"address": "10.0.0.2:80"}], "protocol": "http2"}},
        "routes": routes,
    }


@pytest.fixture(scope="module")
def served() -> Iterator[EngineProcess]:
    routes = (
        {"name": "plain", "match": [{"path": {"prefix": "/plain"}}], "forward": "p"},
        {"name": "own", "match": [{"path": {"prefix": "/own"}}], "respond": {"status": 418, "body": "own\n"}},
        {"name": "two", "match": [{"path": {"prefix": "/two"}}], "forward": "two"},
    )
    with serving(topology(*routes), engines_on_host((ENGINE.name,))[0]) as (_, _, handle):
        yield handle


def get(served: EngineProcess, target: str, *headers: tuple[str, str]) -> Answer:
    return fetch(served.address("web"), Request("GET", target, (("Host", "h"), *headers)))


def test_a_handshake_goes_to_an_endpoint_of_http2_over_http1_as_explain_says(served):
    assert get(served, "/two", *HANDSHAKE).status == 101


@pytest.mark.parametrize(
    "sent", [b"GET /plain HTTP/1.1\r\nHost:", b"POST /plain HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nhalf"]
)
def test_what_stops_coming_is_ended(served, sent):
    with socket.create_connection(served.address("web"), timeout=5) as connection:
        connection.sendall(sent)
        begun = time.monotonic()
        while connection.recv(65536):
            pass
        assert 1.9 <= time.monotonic() - begun < 4


def test_an_upload_may_take_longer_than_the_time_for_heads_and_for_silences(served):
    with socket.create_connection(served.address("web"), timeout=5) as connection:
        connection.sendall(b"POST /plain HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\n")
        for _ in range(5):
            time.sleep(0.15)
            connection.sendall(b"x")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


def test_ping_and_metrics_are_on_the_internal_entry_point(served):
    at = f"http://127.0.0.1:{served.plan.admin_port}"
    assert urlopen(f"{at}/ping").read() == b"OK"
    assert b"traefik_config_reloads_total" in urlopen(f"{at}/metrics").read()
    assert get(served, "/ping").status == get(served, "/metrics").status == 404


def test_a_changed_file_is_taken_over_without_a_lost_request(served):
    old = served.directory / "dynamic" / "http.yaml"
    fresh = served.directory / "http.new"
    fresh.write_text(old.read_text(encoding="utf-8").replace('body: "own\\n"', 'body: "new\\n"'), encoding="utf-8")
    fresh.chmod(0o644)
    fresh.replace(old)
    end = time.monotonic() + 5
    bodies = []
    while time.monotonic() < end and bodies[-3:] != [b"new\n"] * 3:
        bodies.append(get(served, "/own").body)
    assert set(bodies) in ({b"own\n", b"new\n"}, {b"new\n"})


def test_the_checker_names_what_traefik_refuses_and_nothing_else():
    class Broken(type(ENGINE)):  # type: ignore[misc]
        def render(self, plan: Plan, version: str) -> Any:
            files = super().render(plan, version)
            return tuple(replace(file, text=file.text.replace("^(?:/a)$", "^(?:/[z-a])$")) for file in files)

    binary = need_binary(ENGINE.name)
    plan = lbgen.plan(lbgen.load(topology({"name": "r", "match": [{"path": {"regex": "/a"}}], "forward": "p"})))
    assert check.check(plan, ENGINE, binary) == ()
    assert any("invalid character class range" in problem.message for problem in check.check(plan, Broken(), binary))
