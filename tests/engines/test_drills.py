"""An endpoint's process is killed, frozen or cut off: it is out and back in time, and nobody else's connection ends."""

from __future__ import annotations

import http.client
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing, contextmanager

import pytest

import lbgen
from lbgen.agent import state_file
from lbgen.plan.overlay import with_endpoints
from lbgen.runtime.common import ports
from lbgen.runtime.local.network import network
from lbgen.runtime.local.process import run_engine
from tests.engines.test_nftables import needs_kernel
from tests.engines.test_nginx_agent import over

pytestmark = [needs_kernel, pytest.mark.engines, pytest.mark.root, pytest.mark.measures]
INTERVAL, TIMEOUT, FALL, RISE, GRACE = 0.2, 0.15, 2, 3, 0.3
FIRST = 24_660
ROUND = 9  # connections after which all endpoints that serve have answered
SERVER = """
import sys, http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.send_header("x-stand-in-name", sys.argv[2])
        self.end_headers()
    def log_message(self, *_): pass
class S(http.server.ThreadingHTTPServer):
    server_bind = socketserver.TCPServer.server_bind  # it asks no name server who it is
S((sys.argv[1], int(sys.argv[3])), H).serve_forever()
"""


class Endpoints:
    """Three processes at an address; faults hit the first one. `inside` are the words that run a command in the network
    of that address."""

    def __init__(self, host: str, stack: ExitStack, inside: tuple[str, ...] = ()) -> None:
        self.host, self.stack, self.inside = host, stack, inside
        self.processes = [self.start(number) for number in range(3)]

    def start(self, number: int) -> subprocess.Popen[bytes]:
        argv = (*self.inside, sys.executable, "-c", SERVER, self.host, f"e{number}", str(FIRST + number))
        process = subprocess.Popen(argv)
        self.stack.callback(process.wait)
        self.stack.callback(process.kill)
        end = time.monotonic() + 20
        while not ports.accepts(self.host, FIRST + number):
            assert time.monotonic() < end
            time.sleep(0.005)
        return process

    def kill(self) -> None:
        self.processes[0].kill()
        self.processes[0].wait()

    def revive(self) -> None:
        self.processes[0] = self.start(0)

    def freeze(self) -> None:
        self.processes[0].send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.processes[0].send_signal(signal.SIGCONT)

    def blackhole(self) -> None:
        chain = f"chain in {{ type filter hook input priority 0; tcp dport {FIRST} drop; }};"
        subprocess.run((*self.inside, "nft", f"table ip dead {{ {chain} }}"), check=True)
        self.stack.callback(self.clear)

    def clear(self) -> None:
        subprocess.run((*self.inside, "nft", "delete table ip dead"), check=False, stderr=subprocess.DEVNULL)


@contextmanager
def served(engine: str):
    checks = {"path": "/", "interval": "200ms", "timeout": "150ms", "fall": FALL, "rise": RISE}
    topology = {
        "version": 1,
        "name": "drill",
        "listeners": {"db": {"port": 24_650, "mode": "l4", "address": "0.0.0.0"}},  # noqa: S104 - in a namespace
        "pools": {
            "db": {"endpoints": [{"address": f"10.9.0.{n}:80"} for n in (1, 2, 3)], "health": {"active": checks}}
        },
        "routes": [{"name": "db", "listeners": ["db"], "forward": "db"}],
    }
    plan = lbgen.plan(lbgen.load(topology))
    with ExitStack() as stack:
        net = stack.enter_context(network())
        ends = Endpoints(net.host, stack)
        places = {each.field: (net.host, FIRST + at) for at, each in enumerate(plan.pools[0].endpoints)}
        own = {"network": net} if engine == "nftables" else {}
        handle = stack.enter_context(run_engine(engine, with_endpoints(plan, places), accept=("all",), **own))
        wait_for(handle, "up", 40)
        yield ends, handle


def wait_for(handle, state: str, seconds: float) -> float:
    """Seconds until the agent says so of the first endpoint."""
    begun = time.monotonic()
    while [str(x.state) for x in state_file.read(handle.directory).values()] != [state, "up", "up"]:
        assert time.monotonic() < begun + seconds, (handle.directory / "agent.log").read_text()
        time.sleep(0.005)
    return time.monotonic() - begun


def ask(handle) -> str:
    """Who answers a new connection; "" for nobody in time."""
    try:
        with closing(http.client.HTTPConnection(*handle.address("db"), timeout=0.1)) as connection:
            connection.connect()
            return str(over(connection))
    except (OSError, http.client.HTTPException):
        return ""


def only(handle, names: set[str]) -> float:
    """When these alone begin to answer new connections, all of them.

    What another answers, or nobody within 0.1 s, ends a round of asking at once: its rest would count as time."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        begun, found = time.monotonic(), []
        while len(found) < ROUND and (name := ask(handle)) in names:
            found.append(name)
        if len(found) == ROUND and set(found) == names:
            return begun
    raise AssertionError((handle.directory / "agent.log").read_text())


def drill(ends: Endpoints, handle, attempts: int = 1, frozen=None) -> dict[str, list[str]]:
    """What each fault took, in each attempt; AssertionError where none of them was in time. `frozen` is called while
    the endpoint is."""
    only(handle, {"e0", "e1", "e2"})
    held = http.client.HTTPConnection(*handle.address("db"), timeout=5)
    held.auto_open = 0
    held.connect()
    while (mine := over(held)) == "e0":
        held.close()
        held.connect()
    figures: dict[str, list[str]] = {}
    for fault, remedy in ((ends.kill, ends.revive), (ends.freeze, ends.thaw), (ends.blackhole, ends.clear)):
        silent = 0 if fault == ends.kill else TIMEOUT
        for attempt in range(attempts):
            time.sleep(1.5)  # reloads of the engine are half a second apart
            begun = time.monotonic()
            fault()
            out = only(handle, {"e1", "e2"}) - begun
            if fault == ends.freeze and frozen is not None:
                frozen()
            remedy()
            begun = time.monotonic()
            back = only(handle, {"e0", "e1", "e2"}) - begun
            assert over(held) == mine, fault.__name__
            figures.setdefault(fault.__name__, []).append(f"out {out:.2f} s, back {back:.2f} s")
            if out <= INTERVAL * FALL + silent + GRACE and back <= INTERVAL * RISE + GRACE:
                break
            assert attempt + 1 < attempts, figures
    held.close()
    return figures


@pytest.mark.parametrize("engine", ["nftables", "nginx"])
def test_an_endpoint_is_out_and_back_in_time(engine):
    with served(engine) as (ends, handle):

        def forget_nothing() -> None:
            """An agent that dies meanwhile."""
            handle.agent.kill()
            handle.agent.wait()
            assert "e0" not in {ask(handle) for _ in range(9)}
            handle.restart_agent()
            time.sleep(1)
            assert "e0" not in {ask(handle) for _ in range(9)}

        print(engine, drill(ends, handle, frozen=forget_nothing))  # noqa: T201
