"""`verify --against`: what a client sees of a balancer that runs elsewhere, before endpoints that are no stand-ins."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

import lbgen
from lbgen.conformance.runner import CaseState
from lbgen.diagnostics import EngineError

LOCAL = "127.0.0.1"
MOVED = {"host": "new.example", "status": 301}


def topology(port: int) -> lbgen.Plan:
    inside = {"allow": ["10.0.0.0/8"]}
    limit = {"rate": "1/m", "burst": 1, "key": "client_ip"}
    data = {
        "version": 1,
        "name": "deployed",
        "listeners": {"web": {"port": port}},
        "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}]}},
        "routes": [
            {"name": "all", "forward": "app"},
            {"name": "old", "match": [{"path": {"prefix": "/old"}}], "redirect": MOVED},
            {"name": "hi", "match": [{"path": {"exact": "/hi"}}], "respond": {"status": 200, "body": "hello\n"}},
            {"name": "in", "match": [{"path": {"prefix": "/in"}}], "forward": "app", "access": inside},
            {"name": "slow", "match": [{"path": {"exact": "/slow"}}], "respond": {"status": 200}, "rate_limit": limit},
        ],
    }
    return lbgen.plan(lbgen.load(data))


class Balancer(BaseHTTPRequestHandler):
    """Answers as the topology says; `redirects` is the status of the redirect. Other requests reach its endpoint, which
    keeps their methods and paths."""

    protocol_version = "HTTP/1.1"
    redirects = 301
    endpoint: ClassVar[list[tuple[str, str]]] = []

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path == "/old" or path.startswith("/old/"):
            port = self.server.server_address[1]
            self.send(self.redirects, b"", ("Location", f"http://new.example:{port}{self.path}"))
        elif path == "/hi":
            self.send(200, b"hello\n", ("Content-Type", "text/plain"))
        elif path == "/in" or path.startswith("/in/"):
            self.send(403, b"no")
        else:
            self.endpoint.append((self.command, self.path))
            self.send(200, b"of a real endpoint")

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PATCH = answer  # noqa: N815

    def send(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
        self.send_response_only(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def balancer(**more: object) -> Iterator[tuple[int, type[Balancer]]]:
    kind = type("Deployed", (Balancer,), {"endpoint": [], **more})
    with ThreadingHTTPServer((LOCAL, 0), kind) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], kind
        server.shutdown()


def verify(port: int, client: str = "") -> lbgen.Report:
    return lbgen.verify(topology(port), ["nginx"], against={"": f"http://{LOCAL}:{port}"}, client=client)


def test_what_the_balancer_answers_is_judged_and_its_endpoints_get_one_request() -> None:
    with balancer() as (port, kind):
        report = verify(port)
    assert [each.detail for each in report.differences] == []
    passed = {x.clause for x in report.results if x.state is CaseState.PASS}
    assert {"2.rule", "5.access"} <= passed
    skipped = {x.detail for x in report.results if x.state is CaseState.SKIPPED}
    assert skipped == {
        "not sent: the endpoints are no stand-ins, and do not say what reaches them",
        "not sent: its route limits requests",
    }
    assert report.green
    assert [method for method, _ in kind.endpoint] == ["GET"]
    untried = (
        "routes[all].forward",
        "routes[slow].respond",
        "routes[slow].rate_limit",
        "listeners.web.forwarded_headers",
    )
    assert all(any(each.startswith(field) for each in report.untried) for field in untried)
    assert not any(field.startswith(("routes[old].redirect", "routes[hi].respond")) for field in report.untried)


def test_a_wrong_answer_is_a_difference() -> None:
    with balancer(redirects=302) as (port, _):
        report = verify(port)
    assert {each.clause for each in report.differences} >= {"2.rule"}
    assert all("302, expected 301" in each.detail for each in report.differences)
    assert report.exit_code == 4


def test_the_address_of_this_host_decides_what_access_says() -> None:
    """As seen from 10.0.0.9 the route forwards, so the balancer's 403 is a wrong answer nobody judges: an endpoint has
    to say so."""
    with balancer() as (port, _):
        report = verify(port, client="10.0.0.9")
    refused = [x for x in report.results if x.clause == "5.access"]
    assert not [x for x in refused if x.state is CaseState.PASS]


def test_nothing_that_listens_is_an_error() -> None:
    with balancer() as (port, _):
        pass
    with pytest.raises(EngineError, match=f"LB437: nothing answers at http://{LOCAL}:{port}"):
        verify(port)
