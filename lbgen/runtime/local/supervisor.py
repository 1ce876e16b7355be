"""The process that owns a local stack: it starts engines and stand-ins, restarts and reloads them, and stops them."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from types import FrameType

from msgspec import Struct, field
from msgspec.structs import replace

import lbgen.codes  # noqa: F401  # where descriptors run out a finding could not import it any more
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity
from lbgen.runtime.common import state
from lbgen.runtime.common.driver import Progress
from lbgen.runtime.common.processes import ProcessId
from lbgen.runtime.common.reload import REMEDY, internal_error, refusal
from lbgen.runtime.common.state import EngineState
from lbgen.runtime.local import stack_processes
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.messages import (
    Connection,
    ControlSocket,
    Failure,
    ReloadRequest,
    StartRequest,
    Success,
    TakeoverRequest,
)
from lbgen.runtime.local.spawn import how_ended
from lbgen.runtime.local.stack_processes import SavedStack, StackProcesses
from lbgen.runtime.local.takeover import take_over
from lbgen.system_errors import set_supervisor, to_diagnostic

_FIRST_SECONDS, _LONGEST_SECONDS = 1.0, 30.0
_WELL_SECONDS = 60.0  # of run time that reset the back-off


class Backoff(Struct):
    """Exponential back-off of restarts: 1, 2, 4 ... 30 seconds. Times are `time.monotonic` seconds."""

    begun: float = 0.0
    due: float | None = None  # None = it runs
    _wait: float = _FIRST_SECONDS

    def schedule(self, now: float) -> float:
        """Schedule a restart after a death; returns the seconds until then."""
        if now - self.begun >= _WELL_SECONDS:
            self._wait = _FIRST_SECONDS
        wait, self._wait = self._wait, min(self._wait * 2, _LONGEST_SECONDS)
        self.due = now + wait
        return wait

    def take_due(self, now: float) -> bool:
        """Whether a restart is due; if so, it counts as done."""
        if self.due is None or now < self.due:
            return False
        self.due, self.begun = None, now
        return True


class EngineWatch(Struct):
    """Restarts one engine and its agent. Of a kernel engine without a process only the namespace can end."""

    handle: EngineProcess
    ended: str = ""
    died: str = ""
    restarts: int = 0
    _engine: Backoff = field(default_factory=Backoff)
    _agent: Backoff = field(default_factory=Backoff)

    def check(self, now: float) -> Iterator[str]:
        """Restart what is due; yields a line for each event since the last call."""
        handle, name = self.handle, self.handle.engine
        code = handle.process.poll()
        if self._engine.due is None and not self.ended and code is not None:
            self.ended = self.died = how_ended(code)
            if not handle.spec.argv:
                yield f"{name}: its namespace {self.ended}, and the rules with it; start the stack anew"
            else:
                yield f"{name} (pid {handle.pid}) {self.ended}; starts again in {self._engine.schedule(now):g} s"
        elif self._engine.take_due(now):
            try:
                handle.restart()
            except OSError as error:  # no memory or processes left, for now
                yield f"{name} cannot be started: {error}; tries again in {self._engine.schedule(now):g} s"
            else:
                self.ended = ""
                self.restarts += 1
                yield f"{name} started again as pid {handle.pid}"
        if handle.agent is None:
            return
        code = handle.agent.poll()
        if self._agent.due is None and code is not None:
            how = how_ended(code)
            yield f"{name}: its agent (pid {handle.agent.pid}) {how}; starts again in {self._agent.schedule(now):g} s"
        elif self._agent.take_due(now):
            try:
                handle.restart_agent()
            except OSError as error:
                yield f"{name}: its agent cannot be started: {error}; tries again in {self._agent.schedule(now):g} s"
            else:
                yield f"{name}: its agent started again as pid {handle.agent.pid}"

    def updated(self, entry: EngineState) -> EngineState:
        """`entry` with the present pids and counts."""
        identity = ProcessId.of(self.handle.pid)
        return replace(
            entry,
            pid=self.handle.pid,
            started=identity.started if identity is not None else entry.started,
            ended=self.ended,
            died=self.died,
            restarts=self.restarts,
            agent=self.handle.agent.pid if self.handle.agent is not None else 0,
        )


_LOOK_SECONDS = 0.5
_CALLER_SECONDS = 5.0  # for a caller's request


class _StopError(BaseException):
    """Raised in the main thread by a stop signal; no error handler may catch it."""


class Supervisor:
    """The supervisor of one stack. `pipe` leads to `up`, then to the current caller."""

    def __init__(self, request: StartRequest, pipe: Connection) -> None:
        self.request = request
        self.pipe = pipe
        self._ends = ExitStack()
        self._stopping = False
        me = ProcessId.own()
        record = state.StackState(request.name, request.digest, me.pid, me.started, first=f"{me.pid} {me.started}")
        self.processes = StackProcesses(request, record, self._send, self._ends)

    def run(self) -> None:
        """Bring the stack up, and keep it until SIGTERM, or until `up` ends before the commit; then remove everything.

        An error before the commit ends the stack and is sent to `up`. After the commit no error ends it.
        """
        with self._own_processes() as ends:
            state.write(self.processes.record)
            self.processes.make_networks()
            threading.Thread(target=self._watch_up, name="watch", daemon=True).start()
            warnings = self.processes.start()
            control = ends.enter_context(closing(ControlSocket(Path(self.request.folder))))
            self.processes.save()
            self.processes.record = replace(self.processes.record, committed=True)
            state.write(self.processes.record)
            self._send(Success(self.processes.record, warnings))
            self._supervise(control)

    def resume(self, control: ControlSocket, answer: Success | Failure) -> None:
        """Send `answer`, and keep a stack that was taken over, as `run` does."""
        with self._own_processes():
            self._send(answer)
            with contextlib.suppress(OSError):
                self.pipe.close()
            self._supervise(control)

    @contextlib.contextmanager
    def _own_processes(self) -> Iterator[ExitStack]:
        """Stop everything when the block ends, and send an error that leaves it to `up`."""
        signal.signal(signal.SIGTERM, self._on_stop_signal)
        signal.signal(signal.SIGINT, self._on_stop_signal)
        failed: Failure | None = None
        try:
            with self._ends as ends:
                ends.callback(self._ignore_signals)
                try:
                    yield ends
                finally:
                    self._stopping = True
                    self.processes.request_stop()
        except Exception as error:  # noqa: BLE001 - sent to `up`
            failed = self.failure(error)
        except _StopError:
            pass
        state.forget(self.processes.record)
        if failed is not None:
            self._send(failed)

    def _supervise(self, control: ControlSocket) -> None:
        """Restart what dies and serve callers until a signal arrives. No error ends this."""
        watches = [EngineWatch(handle) for handle in self.processes.handles.values()]
        stand_ins = Backoff()
        while True:
            try:
                self._check_engines(watches)
                if not self.processes.stand_ins.is_alive() and stand_ins.due is None:
                    _log(f"the stand-ins ended; they start again in {stand_ins.schedule(time.monotonic()):g} s")
                elif stand_ins.take_due(time.monotonic()):
                    self.processes.stand_ins.serve(self.processes.stand_in_set.stand_ins)
                    _log("the stand-ins started again")
                caller = control.wait(_LOOK_SECONDS)
                if caller is not None:
                    with caller:
                        self.pipe = caller
                        self._serve()
            except Exception as error:  # noqa: BLE001 - no error may end what serves
                _log(f"goes on after an error: {_diagnostic(error).message}")
                time.sleep(_LOOK_SECONDS)

    def _check_engines(self, watches: list[EngineWatch]) -> None:
        """Log and record which engines died and which were restarted."""
        for watch in watches:
            for line in watch.check(time.monotonic()):
                _log(line)
                entry = next(x for x in self.processes.record.engines if x.name == watch.handle.engine)
                self.processes.write_entry(watch.updated(entry))

    def _serve(self) -> None:
        """Serve a caller's reload request. Every error is answered."""
        try:
            asked: ReloadRequest = self.pipe.receive(ReloadRequest, _CALLER_SECONDS)
        except (EOFError, ConnectionError, TimeoutError):
            return
        except Exception as error:  # noqa: BLE001 - e.g. data of another lbgen
            _log(traceback.format_exc())
            message = f"the supervisor cannot read what is asked of it: {type(error).__name__}: {error}"
            hint = f"where lbgen was updated while the stack ran: {REMEDY}"
            unread = _diagnostic(error) if isinstance(error, OSError) else refusal(message, hint)
            self._send(Failure((unread,), EngineError.exit_code))
            return
        try:
            warnings = self.processes.reload(asked)
        except Exception as error:  # noqa: BLE001 - as above
            self._send(self.failure(error))
        else:
            self._send(Success(self.processes.record, warnings))

    def failure(self, error: Exception) -> Failure:
        """The answer for an error."""
        if isinstance(error, LbgenError):
            return Failure(error.diagnostics, error.exit_code)
        if not isinstance(error, OSError):
            _log("".join(traceback.format_exception(error)))
        return Failure((_diagnostic(error, self.request.folder),), EngineError.exit_code)

    def take_over(self, saved: SavedStack, record: state.StackState) -> None:
        """Adopt the processes of `saved`. Raises OSError, LbgenError, and changes nothing then."""
        self.processes = take_over(saved, record, self._send, self._ends)
        for handle in self.processes.handles.values():
            self.processes.refresh_entry(handle)

    def _watch_up(self) -> None:
        """Wait until `up` closes its pipe; if the stack is not committed by then, end it."""
        pipe = self.pipe
        pipe.wait_closed()
        if not self.processes.record.committed and not self._stopping:
            os.kill(os.getpid(), signal.SIGTERM)
        pipe.close()

    def _on_stop_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise _StopError

    def _ignore_signals(self) -> None:
        self._stopping = True

    def _send(self, what: Progress | Success | Failure) -> None:
        with contextlib.suppress(OSError, ValueError):  # `up` has ended, which `_watch_up` handles
            self.pipe.send(what)


def _diagnostic(error: Exception, place: str = "") -> Diagnostic:
    """The finding for an error that is not a LbgenError."""
    return to_diagnostic(error, place) if isinstance(error, OSError) else internal_error(error)


def _log(text: str) -> None:
    """Write to the supervisor's log; on a full disk only the line is lost."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{time.strftime('%F %T')} {text.rstrip()}\n")
        sys.stderr.flush()


def take_over_stack(asked: TakeoverRequest, pipe: Connection) -> None:
    """Become the supervisor of a stack that has none, and roll back an unfinished change. An error is answered, and the
    stack stays as it is."""
    folder = Path(asked.folder)
    try:
        with _takeover_lock(folder):
            record = state.read(asked.name)
            if record is not None and record.supervisor.alive():  # another one was first
                pipe.send(Success(record, ()))
                return
            saved = stack_processes.read_saved(folder)
            if record is None or saved is None:
                raise EngineError(refusal(f"{asked.name} was started by another lbgen, whose notes cannot be read"))
            made = Supervisor(saved.request, pipe)
            made.take_over(saved, record)
            control = ControlSocket(folder)
            state.write(made.processes.record)
    except Exception as error:  # noqa: BLE001 - it is answered
        diagnostics = error.diagnostics if isinstance(error, LbgenError) else (_diagnostic(error, asked.folder),)
        pipe.send(Failure(diagnostics, EngineError.exit_code))
        return
    _log(f"took over {asked.name}")
    answer: Success | Failure
    try:
        found = made.processes.recover(seconds=asked.seconds)
        answer = Success(made.processes.record, tuple(replace(each, severity=Severity.WARNING) for each in found))
    except Exception as error:  # noqa: BLE001 - the next reload tries it again
        answer = made.failure(error)
    made.resume(control, answer)


@contextlib.contextmanager
def _takeover_lock(folder: Path) -> Iterator[None]:
    """Keep other supervisors from taking over, by a lock on the folder itself, which needs no disk space."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main(descriptor: int) -> None:
    """Serve the request that arrives over the pipe with this descriptor: bring a stack up, or take one over."""
    set_supervisor()
    pipe = Connection(multiprocessing.connection.Connection(descriptor))
    try:
        asked: StartRequest | TakeoverRequest = pipe.receive(StartRequest | TakeoverRequest)
    except EOFError:
        return
    if isinstance(asked, TakeoverRequest):
        take_over_stack(asked, pipe)
        return
    try:
        made = Supervisor(asked, pipe)
    except OSError as error:  # there is nothing to stop yet
        pipe.send(Failure((_diagnostic(error),), EngineError.exit_code))
        return
    made.run()
