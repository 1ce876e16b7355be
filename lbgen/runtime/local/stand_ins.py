"""The stand-ins of a local stack: their process, which outlives the supervisor and can start more, and its client."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.runtime.local.messages import ControlSocket, Failure, connect
from lbgen.runtime.local.spawn import AdoptedProcess, Process, session_leaders, spawn_own, stop
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from lbgen.system_errors import set_supervisor, to_diagnostic

LOG = "stand-ins.log"
_ENTRY = "lbgen.runtime.local.stand_ins:main"
SOCKET = "stand-ins"
_SECONDS = 20.0  # for an answer, including the start of the process
LOOK_SECONDS = 0.01


class StandIns(Struct):
    """The process, which works in `folder`; `process` None before the first `serve`."""

    folder: Path
    process: Process | None = None

    @classmethod
    def adopt(cls, folder: Path) -> StandIns:
        """The stand-ins that serve in `folder`."""
        module = _ENTRY.partition(":")[0]
        found = [each for each in session_leaders(str(folder)) if any(f"from {module} " in word for word in each.argv)]
        return cls(folder, AdoptedProcess.of(found[-1].identity) if found else None)

    def serve(self, stand_ins: tuple[StandIn, ...]) -> None:
        """Return once all of these listen. Those that listened before continue, also after an error.

        Raises EngineError LB404 (port in use), LB403.
        """
        if self.process is None or self.process.poll() is not None:
            (self.folder / SOCKET).unlink(missing_ok=True)
            with (self.folder / LOG).open("ab") as output:
                self.process = spawn_own(_ENTRY, str(self.folder), directory=self.folder, output=output)
        answer = self._ask(stand_ins)
        if isinstance(answer, Failure):
            raise EngineError(answer.diagnostics)

    def is_alive(self) -> bool:
        """Whether their process runs, or was never started."""
        return self.process is None or self.process.poll() is None

    def stop(self) -> None:
        """End them all."""
        if self.process is not None:
            stop(self.process, signal.SIGTERM, 2.0)

    def _ask(self, stand_ins: tuple[StandIn, ...]) -> Failure | None:
        assert self.process is not None  # noqa: S101 - started by the caller
        end = time.monotonic() + _SECONDS
        while True:
            try:
                with connect(self.folder, SOCKET) as pipe:
                    pipe.send(stand_ins)
                    answer: Failure | None = pipe.receive(Failure | None, _SECONDS)
                    return answer
            except (FileNotFoundError, ConnectionError, EOFError, TimeoutError):  # starting, or ended
                if self.process.poll() is None and time.monotonic() < end:
                    time.sleep(LOOK_SECONDS)
                    continue
            hint = f"{self.folder / LOG} may say why; repeat the command"
            raise EngineError(Diagnostic("LB403", "the process of the stand-ins does not answer", hint=hint))


_WAIT_SECONDS = 3600.0


def main(folder: str) -> None:
    """Start the stand-ins that callers send, until SIGTERM. Every error is answered."""
    set_supervisor()
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    control = ControlSocket(Path(folder), SOCKET)
    served: set[StandIn] = set()
    with ExitStack() as ends:
        while True:
            try:
                caller = control.wait(_WAIT_SECONDS)
                if caller is not None:
                    with caller:
                        caller.send(_answer(caller.receive(tuple[StandIn, ...]), served, ends))
            except Exception as error:  # noqa: BLE001 - no caller may end what serves
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
                time.sleep(LOOK_SECONDS)


def _answer(asked: tuple[StandIn, ...], served: set[StandIn], ends: ExitStack) -> Failure | None:
    new = tuple(each for each in asked if each not in served)
    if not new:
        return None
    try:
        ends.enter_context(stand_in_servers(new))
    except LbgenError as error:
        return Failure(error.diagnostics, error.exit_code)
    except OSError as error:
        return Failure((to_diagnostic(error),), EngineError.exit_code)
    served.update(new)
    return None
