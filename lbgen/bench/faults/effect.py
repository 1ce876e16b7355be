"""Start a fault during a load, and end it."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from lbgen.bench.constant_rate import trusting_context
from lbgen.bench.faults import BEFORE_SECONDS, FAULT_SECONDS, PULSE_SECONDS, RESTART_SECONDS, SLOW_CLIENTS, Fault
from lbgen.plan.model import Forward, Plan
from lbgen.runtime.common.reload import Change
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.messages import EngineChoice
from lbgen.runtime.local.process import wait_listening
from lbgen.runtime.local.reload import prepare_change
from lbgen.runtime.standins.server import StandInServers
from lbgen.runtime.standins.stand_in import JSON, Behaviour

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

_STEP_SECONDS = 0.05
_READY_SECONDS = 30.0
_LONGER = 1000  # milliseconds by which a reload changes the response time, or at layer 4 the idle time


class StoppedError(Exception):
    """The drill ends before its time."""


class Stage(Struct):
    """Where a fault takes place: the engine, its stand-ins, the endpoint that fails, and by how much it is late.
    `begin` and `end` are `time.monotonic` seconds; `detail` what else was seen."""

    fault: Fault
    handle: EngineProcess
    choice: EngineChoice
    stand_ins: StandInServers
    endpoint: str
    late: float
    target: LoadTarget
    begin: float = 0.0
    end: float = 0.0
    detail: str = ""
    stop: Event = field(default_factory=Event)
    change: Change | None = None

    def prepare(self) -> None:
        """What takes time before the load begins. Raises LbgenError."""
        if self.fault is Fault.RELOAD:
            plan = with_other_time(self.handle.plan, self.target.route)
            self.change = prepare_change(self.handle, self.choice.engine, plan, ("all",))

    def run(self) -> None:
        """Wait, bring the fault about, and take it back. Raises LbgenError; StoppedError once `stop` is set."""
        self._sleep(BEFORE_SECONDS)
        self.begin = time.monotonic()
        self.end = self.begin + FAULT_SECONDS
        if self.fault is Fault.KILL:
            self._kill()
        elif self.change is not None:
            self.change.load()
            self.change.live.wait_listening(_READY_SECONDS)
            self.end = time.monotonic()
            self.detail = f"loaded after {self.end - self.begin:.2f} s"
        elif self.fault is Fault.SLOW_CLIENTS:
            self._slow_clients()
        else:
            self._endpoint()

    def _endpoint(self) -> None:
        behave = self.stand_ins.behave
        down = Behaviour("fixed", status=503, body="unavailable\n")
        steady = {
            Fault.SLOW: Behaviour("hang", wait_ms=round(self.late * 1000)),
            Fault.RESET: Behaviour("reset"),
        }
        try:
            if self.fault in steady:
                behave(self.endpoint, steady[self.fault])
                self._sleep(FAULT_SECONDS)
            elif self.fault is Fault.FREEZE:
                while (left := self.end - time.monotonic()) > 0:
                    behave(self.endpoint, Behaviour("hang", wait_ms=round(left * 1000)))
                    self._sleep(min(left, _STEP_SECONDS))
            elif self.fault is Fault.FLAP:
                self._pulses(
                    lambda: self.stand_ins.listen(self.endpoint, "refuse"),
                    lambda: self.stand_ins.listen(self.endpoint, "yes"),
                )
            else:
                self._pulses(lambda: behave(self.endpoint, down), lambda: behave(self.endpoint, JSON))
        finally:
            behave(self.endpoint, JSON)
        self.end = time.monotonic()

    def _pulses(self, on: Callable[[], None], off: Callable[[], None]) -> None:
        while time.monotonic() < self.end:
            on()
            try:
                self._sleep(PULSE_SECONDS)
            finally:
                off()
            self._sleep(PULSE_SECONDS)

    def _slow_clients(self) -> None:
        with slow_clients(self.handle.address(self.target.listener), self.target, SLOW_CLIENTS) as clients:
            while time.monotonic() < self.end:
                clients.send()
                self._sleep(_STEP_SECONDS)
            self.detail = f"{clients.count_closed()} of {clients.count} slow clients were cut"
        self.end = time.monotonic()

    def _kill(self) -> None:
        for process in (self.handle.process, *self.handle.draining):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self._sleep(RESTART_SECONDS)
        self.handle.restart()
        wait_listening(self.handle, _READY_SECONDS)
        self.end = time.monotonic()
        self.detail = f"serves again after {self.end - self.begin:.2f} s"

    def _sleep(self, seconds: float) -> None:
        if self.stop.wait(seconds):
            raise StoppedError


def with_other_time(plan: Plan, route: str) -> Plan:
    """The plan with a response time of that route, and an idle time, that are a second longer."""
    found = plan.route(route)
    assert isinstance(found.action, Forward)  # noqa: S101  # what is measured is forwarded
    times = found.action.timeouts
    times = replace(times, response=times.response + _LONGER, idle=times.idle + _LONGER)
    changed = replace(found, action=replace(found.action, timeouts=times))
    return replace(plan, routes=tuple(changed if x.name == route else x for x in plan.routes))


_CONNECT_SECONDS = 2.0


class SlowClients:
    """Open connections; `send` sends one more byte on each."""

    def __init__(self, sockets: list[socket.socket], head: bytes) -> None:
        self._sockets = sockets
        self._head = head
        self.count = len(sockets)
        self.sent = 0

    def send(self) -> None:
        """Send the next byte of the head, which never ends, to all that are still open."""
        byte = self._head[self.sent : self.sent + 1] or b"x"
        self.sent += 1
        for each in self._sockets:
            with suppress(OSError):
                each.send(byte)

    def count_closed(self) -> int:
        """How many the engine closed, or answered."""
        closed = 0
        for each in self._sockets:
            try:
                each.recv(1)
                closed += 1  # an answer such as 408, or the end
            except (BlockingIOError, TimeoutError):
                continue
            except OSError as error:
                closed += "did not complete" not in str(error)  # what TLS says where nothing came
        return closed


@contextmanager
def slow_clients(place: tuple[str, int], target: LoadTarget, count: int) -> Iterator[SlowClients]:
    """`count` of them, as long as the block lasts; those that cannot connect are left out."""
    sockets: list[socket.socket] = []
    lines = (f"GET {target.target} HTTP/1.1", *(f"{name}: {value}" for name, value in target.headers), "X-Slow: ")
    head = "\r\n".join(lines).encode("latin-1")
    try:
        for _ in range(count):
            with suppress(OSError):
                each = socket.create_connection(place, _CONNECT_SECONDS)
                sockets.append(each)
                if target.server_name is not None:
                    sockets[-1] = trusting_context().wrap_socket(each, server_hostname=target.server_name)
                sockets[-1].setblocking(False)
        yield SlowClients(sockets, head)
    finally:
        for each in sockets:
            each.close()
