"""The process that owns a stack: it has engines and stand-ins start as ordered, keeps them, and takes them down."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity
from lbgen.runtime.common import state
from lbgen.runtime.common.process_id import ProcessId
from lbgen.runtime.common.reload import REMEDY, refusal, unforeseen
from lbgen.runtime.local import journal
from lbgen.runtime.local.company import Company
from lbgen.runtime.local.control import Control
from lbgen.runtime.local.order import Commit, Failed, Reload, TakeOver, Up
from lbgen.runtime.local.takeover import take_over
from lbgen.runtime.local.watch import Backoff, Watch
from lbgen.system_errors import finding, this_process_lasts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from lbgen.runtime.common.progress import Progress
    from lbgen.runtime.local.journal import SavedStack
    from lbgen.runtime.local.order import Order

_LOOK_SECONDS = 0.5
_CALLER_SECONDS = 5.0  # a caller that says nothing for so long is let go


class _StopError(BaseException):
    """Raised in the main thread when the stack shall end; no handler of errors may catch it."""


@dataclass(slots=True)
class Supervisor:
    """One stack. `pipe` leads to `up` until that has committed."""

    order: Order
    pipe: Connection
    committed: threading.Event = field(default_factory=threading.Event)
    company: Company = field(init=False)
    _ends: ExitStack = field(default_factory=ExitStack)
    _stopping: bool = False

    def __post_init__(self) -> None:
        me = ProcessId.of(os.getpid())
        assert me is not None  # noqa: S101 - we live
        first = f"{me.pid} {me.started}"
        record = state.StackState(self.order.name, self.order.digest, me.pid, me.started, first=first)
        self.company = Company(self.order, record, self._tell, self._ends)

    def run(self) -> None:
        """Bring the stack up, keep it until SIGTERM or until `up` dies without commit, leave nothing.

        An error before the commit ends the stack and is answered to `up`. After the commit no error ends it.
        """
        with self._owned() as ends:
            warnings = self._bring_up()
            control = ends.enter_context(closing(Control(Path(self.order.folder))))
            self._commit(warnings)
            self._keep(control)

    def run_on(self, control: Control, answer: Up | Failed) -> None:
        """Keep a stack that was taken over, as `run` does."""
        with self._owned():
            self._tell(answer)
            self._keep(control)

    @contextlib.contextmanager
    def _owned(self) -> Iterator[ExitStack]:
        """What is started ends with the block, and an error that leaves it is answered."""
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, self._asked_to_stop)
        failed: Failed | None = None
        try:
            with self._ends as ends:
                ends.callback(self._no_more_signals)
                try:
                    yield ends
                finally:
                    self._stopping = True
                    self.company.ask_to_stop()
        except Exception as error:  # noqa: BLE001 - it is answered to `up`, whatever it is
            failed = self.failed(error)
        except _StopError:
            pass
        state.forget(self.company.record)
        if failed is not None:
            self._tell(failed)

    def _bring_up(self) -> tuple[Diagnostic, ...]:
        """Start all, and return warnings once `up` has committed."""
        state.write(self.company.record)
        self.company.make_networks()
        watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        watcher.start()
        warnings = self.company.start()
        self._tell(Up(self.company.record, warnings))
        while not self.committed.wait(_LOOK_SECONDS):
            pass
        return warnings

    def _commit(self, warnings: tuple[Diagnostic, ...]) -> None:
        """Write that the stack can be asked, which it can by now, and answer the commit. Raises EngineError LB408."""
        self.company.save()
        self.company.record = replace(self.company.record, committed=True)
        state.write(self.company.record)
        self._tell(Up(self.company.record, warnings))

    def _keep(self, control: Control) -> None:
        """Stay until a signal ends the stack; restart what dies, and serve callers. No error ends this."""
        self._hang_up()
        watches = [Watch(handle) for handle in self.company.handles.values()]
        stand_ins = Backoff()
        while True:
            try:
                self._look(watches)
                if not self.company.stand_ins.alive() and stand_ins.due is None:
                    _log(f"the stand-ins ended; they start again in {stand_ins.died(time.monotonic()):g} s")
                elif stand_ins.again(time.monotonic()):
                    self.company.stand_ins.serve(self.company.cast.stand_ins)
                    _log("the stand-ins started again")
                caller = control.wait(_LOOK_SECONDS)
                if caller is not None:
                    with caller:
                        self.pipe = caller
                        self._serve()
            except Exception as error:  # noqa: BLE001 - what serves goes on, whatever happens here
                _log(f"goes on after an error: {_failure(error).message}")
                time.sleep(_LOOK_SECONDS)

    def _look(self, watches: list[Watch]) -> None:
        """Note what died, and what was started anew."""
        for watch in watches:
            for line in watch.look(time.monotonic()):
                _log(line)
                entry = next(x for x in self.company.record.engines if x.name == watch.handle.engine)
                self.company.note(watch.noted(entry))

    def _serve(self) -> None:
        """Do what a caller asks: the reload to another topology. Every error is answered."""
        try:
            asked = self.pipe.recv() if self.pipe.poll(_CALLER_SECONDS) else None
        except (EOFError, ConnectionError):
            return
        except Exception as error:  # noqa: BLE001 - of another lbgen, whose data cannot be read here
            _log(traceback.format_exc())
            message = f"the supervisor cannot read what is asked of it: {type(error).__name__}: {error}"
            hint = f"where lbgen was updated while the stack ran: {REMEDY}"
            unread = _failure(error) if isinstance(error, OSError) else Diagnostic("LB426", message, hint=hint)
            self._tell(Failed((unread,), EngineError.exit_code))
            return
        if not isinstance(asked, Reload):
            return
        try:
            warnings = self.company.reload(asked)
        except Exception as error:  # noqa: BLE001 - as above
            self._tell(self.failed(error))
        else:
            self._tell(Up(self.company.record, warnings))

    def failed(self, error: Exception) -> Failed:
        """The answer to a caller."""
        if isinstance(error, LbgenError):
            return Failed(error.diagnostics, error.exit_code)
        if not isinstance(error, OSError):
            _log("".join(traceback.format_exception(error)))
        return Failed((_failure(error, self.order.folder),), EngineError.exit_code)

    def take_over(self, saved: SavedStack, record: state.StackState) -> None:
        """Have the company be what runs. Raises OSError, LbgenError, and nothing of it is changed then."""
        self.company = take_over(saved, record, self._tell, self._ends)
        for handle in self.company.handles.values():
            self.company.follow(handle)

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.close()

    def _watch(self) -> None:
        """Wait for the commit; `up` dying before it ends everything."""
        try:
            said = self.pipe.recv()
        except (EOFError, OSError):
            said = None
        if isinstance(said, Commit):
            self.committed.set()
        elif not self._stopping:
            os.kill(os.getpid(), signal.SIGTERM)

    def _asked_to_stop(self, number: int, frame: FrameType | None) -> None:
        if not self._stopping:
            self._stopping = True
            raise _StopError

    def _no_more_signals(self) -> None:
        self._stopping = True

    def _tell(self, what: Progress | Up | Failed) -> None:
        with contextlib.suppress(OSError, ValueError):  # gone: the watcher acts on it
            self.pipe.send(what)


def _failure(error: Exception, place: str = "") -> Diagnostic:
    """What is said of an error that has no finding of its own."""
    return finding(error, place) if isinstance(error, OSError) else unforeseen(error)


def _log(text: str) -> None:
    """Write to the supervisor's log; a full disk loses the line and nothing else."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{time.strftime('%F %T')} {text.rstrip()}\n")
        sys.stderr.flush()


def take_over_stack(asked: TakeOver, pipe: Connection) -> None:
    """Be the supervisor of a stack that has lost its own, and go back from a change that was under way. What keeps us
    from that is answered, and the stack left as it is."""
    folder = Path(asked.folder)
    try:
        with _alone(folder):
            record = state.read(asked.name)
            if record is not None and record.supervisor.alive():  # another one came first
                pipe.send(Up(record, ()))
                return
            saved = journal.read(folder)
            if record is None or saved is None:
                raise EngineError(refusal(f"{asked.name} was started by another lbgen, whose notes cannot be read"))
            made = Supervisor(saved.order, pipe)
            made.take_over(saved, record)
            control = Control(folder)
            state.write(made.company.record)
    except Exception as error:  # noqa: BLE001 - it is answered
        diagnostics = error.diagnostics if isinstance(error, LbgenError) else (_failure(error, asked.folder),)
        pipe.send(Failed(diagnostics, EngineError.exit_code))
        return
    _log(f"took over {asked.name}")
    answer: Up | Failed
    try:
        found = made.company.recover(seconds=asked.seconds)
        answer = Up(made.company.record, tuple(replace(each, severity=Severity.WARNING) for each in found))
    except Exception as error:  # noqa: BLE001 - the next reload tries it again
        answer = made.failed(error)
    made.run_on(control, answer)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other supervisor takes over meanwhile; a lock on the folder itself, which needs no space."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def main(descriptor: int) -> None:
    """Serve what comes over the pipe with this descriptor: a stack to bring up, or to take over."""
    this_process_lasts()
    pipe = Connection(descriptor)
    try:
        asked: Order | TakeOver = pipe.recv()
    except EOFError:
        return
    if isinstance(asked, TakeOver):
        take_over_stack(asked, pipe)
    else:
        Supervisor(asked, pipe).run()
