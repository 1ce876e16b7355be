"""What `ps` says of endpoints, on real engines: the sick are down, the drained are draining, the ejected ejected."""

from __future__ import annotations

import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen import api
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.engines.api import Level, engine
from lbgen.runtime import registry
from tests.support.engine_lists import need_binary, newest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime")]
PORT = 24_560  # the listener; the endpoints are from ten further on
# nginx before 1.30 refuses names, and what its agent does is the same.
L7 = newest_first(
    subject
    for subject in engines_on_host(["nginx", "haproxy", "envoy", "traefik"])
    if subject.binary is None
    or engine(subject.engine).verdict("pool.endpoint_names", subject.version).level is not Level.REFUSED
)
WAIT = 10.0  # seconds, on a busy machine; two checks take a tenth of it


class Endpoint(ThreadingHTTPServer):
    """Answers `status` to everything."""

    status = 200
    daemon_threads = True


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def endpoints(tmp_path, monkeypatch) -> Iterator[list[Endpoint]]:
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(registry, "may_have_docker", lambda: False)
    made = [Endpoint(("127.0.0.1", PORT + 10 + i), Answer) for i in range(4)]
    for each in made:
        threading.Thread(target=each.serve_forever, daemon=True).start()
    yield made
    for stack in api.ps():
        stack.down()
    for each in made:
        each.shutdown()
        each.server_close()


def topology(name: str, version: str, *more: str) -> lbgen.Topology:
    """With a route for each of `more`, and that many endpoints more in the pool `judged`."""
    unresolved = "127.0.0.9:9" if (name, version) == ("nginx", "1.22") else "nowhere.invalid:80"  # 1.22 refuses names
    first, second, third, fourth = ({"address": f"127.0.0.1:{PORT + 10 + i}"} for i in range(4))
    checked = {"active": {"path": "/", "interval": "300ms", "timeout": "300ms", "fall": 2, "rise": 1}}
    judged = {"passive": {"failures": 2, "eject_for": "60s"}}
    return lbgen.load(
        {
            "version": 1,
            "name": "healthy",
            "profile": "minimal",
            "listeners": {"web": {"port": PORT}},
            "pools": {
                "checked": {"endpoints": [first, second | {"weight": 0}], "health": checked},
                "judged": {"endpoints": [third, fourth, *({"address": "127.0.0.9:9"} for _ in more)], "health": judged},
                "plain": {"endpoints": [first, {"address": unresolved}]},
            },
            "routes": [
                {"name": "judged", "match": [{"path": {"prefix": "/judged"}}], "forward": "judged"},
                {"name": "plain", "match": [{"path": {"prefix": "/plain"}}], "forward": "plain"},
                *({"name": x, "match": [{"path": {"prefix": f"/{x}"}}], "forward": "checked"} for x in more),
                {"name": "checked", "forward": "checked"},
            ],
            "engines": {name: {"version": version}},
        }
    )


def states() -> dict[str, str]:
    """`pool/n` -> state of endpoint n."""
    [stack] = api.ps()
    [found] = stack.health().values()
    count: dict[str, int] = {}
    said = {}
    for each in found:
        count[each.pool] = count.get(each.pool, -1) + 1
        said[f"{each.pool}/{count[each.pool]}"] = each.state
    return said


def until(holds: Callable[[], bool]) -> float:
    """Seconds until it holds; fails when that takes too long."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < WAIT, states()
        time.sleep(0.05)
    return time.monotonic() - begun


def ask(path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("subject", L7)
def test_states_are_those_that_the_engine_goes_by(subject: EngineUnderTest, endpoints: list[Endpoint]) -> None:
    name, version = subject.engine, subject.version
    need_binary(name, version)
    with lbgen.up(topology(name, version), engine=name, accept=("all",), runtime="local", backends=False) as stack:
        agent = name == "nginx"
        until(lambda: states()["checked/0"] == "up")
        assert states()["checked/1"] == "draining"
        assert states()["plain/0"] == "unknown"
        endpoints[0].status = 503
        until(lambda: states()["checked/0"] == "down")
        why = "checks fail" if name in ("envoy", "traefik") else "503"
        until(lambda: any(why in x.reason for x in stack.health()[name] if x.state == "down"))
        endpoints[0].status = 200
        until(lambda: states()["checked/0"] == "up")

        endpoints[2].status = 500
        for _ in range(8):
            ask("/judged")
        if agent:  # honest: what nginx finds it tells nobody
            assert {states()["judged/0"], states()["judged/1"]} == {"unknown"}
            return
        if name == "traefik":  # its list of services has what active checks found alone
            assert {states()["judged/0"], states()["judged/1"]} == {"up"}
            return
        assert states()["judged/0"] == "ejected"
        assert states()["judged/1"] == "up"
        if name == "envoy":  # it takes over changes while it runs, and remembers
            lbgen.reload(topology(name, version, "new"))
            assert (states()["judged/0"], len(states())) == ("ejected", 7)
            lbgen.reload(topology(name, version))
            assert states()["judged/0"] == "ejected"
        for _ in range(2):  # some look a name up when they are asked
            ask("/plain")
        until(lambda: states()["plain/1"] == "down")
