"""A running stack -> the same with another engine at the ports of one, while clients of ours watch what they lose."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.model import Mode, Plan
from lbgen.plan.overlay import with_real_endpoints
from lbgen.plan.request import Request
from lbgen.runtime import registry
from lbgen.runtime.common.driver import Progress, Step, UpOptions
from lbgen.runtime.common.ports import LOOPBACK
from lbgen.runtime.common.route_probes import Probe, ask, make_probes, send, wrong_answer
from lbgen.runtime.common.state import EngineState, StackState
from lbgen.runtime.docker import network
from lbgen.runtime.docker import stack as containers
from lbgen.runtime.docker.client import connect
from lbgen.runtime.json_types import SwapResult
from lbgen.runtime.results import Stack

if TYPE_CHECKING:
    import socket


_PAUSE = 0.01  # seconds between the requests of a client
_TALK = 0.05  # the same of an open socket
_TIMEOUT = 5.0
_MOST = 3  # listeners that are watched
_KEPT, _SOCKETS = 2, 2  # clients on kept connections and open sockets, per listener
_SETTLED = 0.5  # before and after
_KEY = "bGJnZW4gd2F0Y2hlcyBpdA=="
_MASKED_HELLO = b"\x81\x85\x00\x00\x00\x00hello"
_HELLO = b"\x81\x05hello"


class LossCounter(Struct):
    """`requests` on new and kept connections, those that `failed` (`first` says how), `gap_ms` for how long new
    connections failed at most; `sockets` (WebSockets, TCP streams) that were held open, those `dropped` before they
    were closed by us."""

    requests: int = 0
    failed: int = 0
    first: str = ""
    gap_ms: int = 0
    sockets: int = 0
    dropped: int = 0
    leave: threading.Event = field(default_factory=threading.Event)  # sockets are to be closed by us now
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def close_sockets_soon(self) -> None:
        """Let open sockets exchange a few more messages, then close them."""
        timer = threading.Timer(_SETTLED * 2, self.leave.set)
        timer.daemon = True
        timer.start()

    def _count(self, wrong: str) -> None:
        with self._lock:
            self.requests += 1
            if wrong:
                self.failed += 1
                self.first = self.first or wrong

    def new_connections(self, probe: Probe, host: str, port: int) -> None:
        """Send one request on each new connection."""
        failing: float | None = None
        while not self._stop.is_set():
            begun = time.monotonic()
            wrong = ask(probe, host, port)
            self._count(wrong)
            if wrong and failing is None:
                failing = begun
            elif not wrong and failing is not None:
                self.gap_ms = max(self.gap_ms, round((time.monotonic() - failing) * 1000))
                failing = None
            time.sleep(_PAUSE)
        if failing is not None:
            self.gap_ms = max(self.gap_ms, round((time.monotonic() - failing) * 1000))

    def kept_connection(self, probe: Probe, host: str, port: int) -> None:
        """Send requests in sequence on one connection; reopen it when it was closed between two of them."""
        connection: http.client.HTTPConnection | None = None
        while not self._stop.is_set():
            try:
                if connection is None or _closed(connection):
                    connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
                    connection.sock = probe.connect.open(host, port, _TIMEOUT)
                send(connection, probe)
                answer = connection.getresponse()
                wrong = wrong_answer(probe, answer)
                answer.read()
            except (OSError, http.client.HTTPException) as error:
                wrong = f"{type(error).__name__}: {error}"
                connection = None
            self._count(wrong)
            time.sleep(_PAUSE)
        if connection is not None:
            connection.close()

    def open_socket(self, probe: Probe, host: str, port: int) -> None:
        """Keep a WebSocket open, or a TCP stream where WebSockets are not accepted, and exchange messages on it."""
        try:
            sock = probe.connect.open(host, port, _TIMEOUT)
        except OSError:
            return
        with sock:
            talk = _websocket(sock, probe) if probe.request is not None else _stream(sock)
            if talk is None:
                return
            with self._lock:
                self.sockets += 1
            try:
                while not self._stop.is_set() and not self.leave.is_set():
                    talk()
                    time.sleep(_TALK)
            except (OSError, ValueError) as error:
                with self._lock:
                    self.dropped += 1
                    self.first = self.first or f"a socket ended: {error}"


def _closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the proxy announced that it closes this connection."""
    sock = connection.sock
    if sock is None:
        return True
    sock.settimeout(0)
    try:
        return sock.recv(1) == b""
    except (BlockingIOError, TimeoutError):
        return False
    except OSError as nothing:
        return "did not complete" not in str(nothing)  # so TLS says that nothing has come
    finally:
        with suppress(OSError):
            sock.settimeout(_TIMEOUT)


def _said(sock: socket.socket, until: bytes) -> bytes:
    """Read up to `until`. ValueError when the connection ends first."""
    got = b""
    while until not in got:
        more = sock.recv(65536)
        if not more:
            raise ValueError("closed")
        got += more
    return got


def _websocket(sock: socket.socket, probe: Probe) -> Callable[[], None] | None:
    asked = probe.request
    assert asked is not None  # noqa: S101  # an L7 probe
    fields = [f"{name}: {value}" for name, value in asked.headers]
    shake = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {_KEY}")
    try:
        sock.sendall(
            "\r\n".join((f"GET {asked.target} HTTP/1.1", *fields, *shake, "", "")).encode("latin-1", "replace")
        )
        if not _said(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 101"):
            return None
    except (OSError, ValueError):
        return None

    def talk() -> None:
        sock.sendall(_MASKED_HELLO)
        _said(sock, _HELLO)

    return talk


def _stream(sock: socket.socket) -> Callable[[], None] | None:
    """Exchange HTTP messages on a TCP stream; the tag of each request is in its response."""

    def talk() -> None:
        mark = os.urandom(8).hex()
        sock.sendall(f"GET /{mark} HTTP/1.1\r\nHost: lbgen-probe.invalid\r\n\r\n".encode())
        head = _said(sock, b"\r\n\r\n")
        head, _, body = head.partition(b"\r\n\r\n")
        if mark.encode() not in body:
            _said(sock, mark.encode())

    try:
        talk()
    except (OSError, ValueError):
        return None
    return talk


def probes_to_repeat(plan: Plan, client: str = LOOPBACK) -> tuple[Probe, ...]:
    """One probe for each of the first listeners that take connections: a GET where there is one. `client` as in
    `make_probes`."""
    found: dict[str, Probe] = {}
    probes = [probe for probe in make_probes(plan, client) if not probe.datagrams]
    for probe in probes:
        asked = probe.request or Request()
        if asked.method == "GET" and probe.status is None:
            found.setdefault(probe.listener, probe)
    for probe in probes:
        found.setdefault(probe.listener, probe)
    return tuple(found.values())[:_MOST]


@contextmanager
def count_losses(
    plan: Plan, address: Callable[[str], tuple[str, int]], client: str = LOOPBACK
) -> Iterator[LossCounter]:
    """Run clients of every probed listener of `plan` at `address(listener)` for the length of the block. `client`: our
    address as the engines see it."""
    seen = LossCounter()
    threads = []
    for probe in probes_to_repeat(plan, client):
        host, port = address(probe.listener)
        l7 = plan.listener(probe.listener).mode is Mode.L7
        kept = _KEPT if l7 and not probe.grpc else 0
        threads.append(threading.Thread(target=seen.new_connections, args=(probe, host, port)))
        threads += [threading.Thread(target=seen.kept_connection, args=(probe, host, port)) for _ in range(kept)]
        sockets = (
            _SOCKETS if not probe.grpc and (l7 or not probe.real) else 0
        )  # of endpoints behind L4 we do not know what they speak
        threads += [threading.Thread(target=seen.open_socket, args=(probe, host, port)) for _ in range(sockets)]
    for each in threads:
        each.daemon = True
        each.start()
    try:
        time.sleep(_SETTLED)
        yield seen
        time.sleep(_SETTLED)
    finally:
        seen._stop.set()  # ours
        for each in threads:
            each.join(_TIMEOUT)


class Proof(Protocol):
    """Whether two engines behave the same."""

    def __call__(
        self, plan: Plan, both: tuple[str, str], accept: tuple[str, ...], progress: Callable[[Progress], None]
    ) -> str:
        """What was compared. DifferenceError LB414 with the first difference, EngineError LB403: one did not run."""
        ...


def verify_and_swap(
    plan: Plan, asked: Sequence[str], new: str, runtime: str | None, how: UpOptions, proof: Proof | None
) -> Stack:
    """Let `new` take the place of the engine that was asked for, or of the only one, once `proof` found no difference.

    Raises as `engine_to_replace`, `proof` and `swap`.
    """
    if len(asked) > 1:
        raise UsageError(Diagnostic("LB415", "one engine is exchanged at a time", hint="name one with -e"))
    stack, old = engine_to_replace(plan, new, asked[0] if asked else None, runtime)
    verified = "" if proof is None else proof(plan, (old.name, new), how.accept, how.progress)
    made = swap(plan, stack, old, new, how)
    return replace(made, swapped=None if made.swapped is None else replace(made.swapped, verified=verified))


def engine_to_replace(plan: Plan, new: str, old: str | None, runtime: str | None) -> tuple[StackState, EngineState]:
    """The stack of that plan and the engine of it that `new` shall replace: `old`, or the only one.

    Raises UsageError LB406 (no such stack), LB415 (it cannot be done there).
    """
    stack = registry.find_stack(plan.name)
    if runtime not in (None, stack.runtime):
        raise UsageError(Diagnostic("LB406", f"{stack.name} runs already, on the runtime {stack.runtime}"))
    if stack.runtime != "docker":
        message = "processes of this host have no network of their own in which connections could be switched"
        hint = "swap in containers (--runtime docker), or stop one engine and start the other: lbgen down, lbgen up -e"
        raise UsageError(Diagnostic("LB415", message, hint=hint))
    names = [each.name for each in stack.engines]
    if new in names:
        raise UsageError(Diagnostic("LB415", f"{new} runs in {stack.name} already", hint=f"lbgen ps {stack.name}"))
    if old is None and len(names) != 1:
        hint = f"say which one: -e {' or -e '.join(names)}"
        raise UsageError(Diagnostic("LB415", f"{len(names)} engines run in {stack.name}", hint=hint))
    if old is not None and old not in names:
        hint = f"one of: {', '.join(names)}"
        raise UsageError(Diagnostic("LB415", f"{old} does not run in {stack.name}", hint=hint))
    return stack, next(each for each in stack.engines if old in (None, each.name))


def swap(plan: Plan, stack: StackState, old: EngineState, new: str, how: UpOptions) -> Stack:
    """Let `new` serve `plan` at the ports of `old`. EngineError LB413 when it does not, and `old` serves on."""
    names = [new if each.name == old.name else each.name for each in stack.engines]
    where = {each.listener: (each.host, each.port) for each in old.addresses}
    client = network.gateway(network.ensure(connect(), stack.name))
    with count_losses(plan if how.backends else with_real_endpoints(plan), where.__getitem__, client) as seen:

        def report(step: Progress) -> None:
            if step.step is Step.DRAINING:
                seen.close_sockets_soon()
            how.progress(step)

        try:
            engines = [engine_by_name(name) for name in names]
            result = containers.up(plan, engines, replace(how, progress=report, insist=True), {new: old.name})
        except EngineError as error:
            first = Diagnostic(
                "LB413", f"{new} does not serve in place of {old.name}, which serves on; {describe_losses(seen)}"
            )
            raise EngineError((first, *error.diagnostics)) from error
    swapped = SwapResult(
        before=old.name,
        after=new,
        requests=seen.requests,
        failed=seen.failed,
        first=seen.first,
        gap_ms=seen.gap_ms,
        sockets=seen.sockets,
        dropped=seen.dropped,
        cut=result.cut,
    )
    return replace(Stack.of(result), swapped=swapped)


def describe_losses(seen: LossCounter) -> str:
    """In words."""
    return f"{seen.failed} of {seen.requests} requests failed meanwhile"
