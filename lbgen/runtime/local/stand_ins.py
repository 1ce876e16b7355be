"""The stand-ins of a local stack, in one process that outlives the supervisor and can start more of them."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.local.adopt import AdoptedProcess, session_leaders
from lbgen.runtime.local.control_socket import connect
from lbgen.runtime.local.messages import Failure
from lbgen.runtime.local.spawn import Process, spawn_own, stop

if TYPE_CHECKING:
    from lbgen.runtime.standins.stand_in import StandIn

LOG = "stand-ins.log"
_ENTRY = "lbgen.runtime.local.stand_in_process:main"
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
            raise EngineError(Diagnostic("LB403", "the process that plays the endpoints does not answer", hint=hint))
