"""The process that owns a stack: it has engines and stand-ins start as ordered, keeps them, and takes them down."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from errno import EDQUOT, ENOSPC
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.runtime.local import state
from lbgen.runtime.local.company import Company
from lbgen.runtime.local.control import Control
from lbgen.runtime.local.order import Commit, Failed, Progress, Reload, Up
from lbgen.runtime.local.spawn import ProcessId
from lbgen.runtime.local.watch import Watch

if TYPE_CHECKING:
    from types import FrameType

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
        record = state.StackState(self.order.name, self.order.digest, me.pid, me.started)
        self.company = Company(self.order, record, self._tell, self._ends)

    def run(self) -> None:
        """Bring the stack up, keep it until SIGTERM or until `up` dies without commit, leave nothing.

        An error that nobody foresaw leaves the record and the log, from which `up` or `down` clean up.
        """
        signal.signal(signal.SIGTERM, self._asked_to_stop)
        signal.signal(signal.SIGINT, self._asked_to_stop)
        failed: Failed | None = None
        try:
            with self._ends as ends:
                ends.callback(self._no_more_signals)
                try:
                    self._bring_up()
                    control = ends.enter_context(closing(Control(Path(self.order.folder))))
                    self._commit()
                    self._keep(control)
                finally:
                    self._stopping = True
                    self.company.ask_to_stop()
        except LbgenError as error:
            failed = Failed(error.diagnostics, error.exit_code)
        except OSError as error:
            if error.errno not in (ENOSPC, EDQUOT):
                raise
            hint = "free some space there, or set TMPDIR or LBGEN_STATE_DIR"
            full = Diagnostic("LB408", f"{error.filename or self.order.folder}: {error.strerror}", hint=hint)
            failed = Failed((full,), EngineError.exit_code)
        except _StopError:
            pass
        state.forget(self.company.record)
        if failed is not None:
            self._tell(failed)

    def _bring_up(self) -> None:
        state.write(self.company.record)
        self.company.make_networks()
        watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        watcher.start()
        warnings = self.company.start()
        self._tell(Up(self.company.record, warnings))
        while not self.committed.wait(_LOOK_SECONDS):
            pass

    def _commit(self) -> None:
        """Let the record say that it can be asked, which it can by now."""
        self.company.record = replace(self.company.record, committed=True)
        state.write(self.company.record)

    def _keep(self, control: Control) -> None:
        """Stay until told to end; note what dies, and start it anew; reload when asked."""
        self._hang_up()
        watches = [Watch(handle) for handle in self.company.handles.values()]
        while True:
            for watch in watches:
                for line in watch.look(time.monotonic()):
                    sys.stderr.write(f"{time.strftime('%F %T')} {line}\n")
                    sys.stderr.flush()
                    entry = next(x for x in self.company.record.engines if x.name == watch.handle.engine)
                    self.company.note(watch.noted(entry))
            caller = control.wait(_LOOK_SECONDS)
            if caller is not None:
                with caller:
                    self.pipe = caller
                    self._serve()

    def _serve(self) -> None:
        """Do what a caller asks: the reload to another topology."""
        try:
            asked = self.pipe.recv() if self.pipe.poll(_CALLER_SECONDS) else None
        except (EOFError, OSError):
            return
        if not isinstance(asked, Reload):
            return
        try:
            warnings = self.company.reload(asked)
            self._tell(Up(self.company.record, warnings))
        except LbgenError as error:
            self._tell(Failed(error.diagnostics, error.exit_code))

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


def main(descriptor: int) -> None:
    """Serve the order that comes over the pipe with this descriptor."""
    pipe = Connection(descriptor)
    try:
        order: Order = pipe.recv()
    except EOFError:
        return
    Supervisor(order, pipe).run()
