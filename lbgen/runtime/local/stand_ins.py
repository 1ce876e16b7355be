"""The stand-ins of a local stack: their process, which outlives the supervisor and can start more."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.processes import wait_until
from lbgen.runtime.common.saved import decode, encode
from lbgen.runtime.common.state import store
from lbgen.runtime.local.spawn import AdoptedProcess, Process, session_leaders, spawn_own, stop
from lbgen.runtime.standins.server import serve_list
from lbgen.runtime.standins.stand_in import StandIn, encode_list
from lbgen.system_errors import set_supervisor

LOG = "stand-ins.log"
_LIST = "stand-ins.json"
_ENTRY = "lbgen.runtime.local.stand_ins:main"
_READY, _FAILED = b"ready", b"failed "  # lines of the log: the second with the diagnostics
_SECONDS = 20.0  # for an answer, including the start of the process


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
        store(self.folder / _LIST, encode_list(stand_ins))
        answer = self._ask() or self._ask()  # one that had just been started ends by the signal
        if answer.startswith(_FAILED):
            raise EngineError(decode(answer.removeprefix(_FAILED), tuple[Diagnostic, ...]))
        if not answer:
            hint = f"{self.folder / LOG} may say why; repeat the command"
            raise EngineError(Diagnostic("LB403", "the process of the stand-ins does not answer", hint=hint))

    def _ask(self) -> bytes:
        """Its answer to the list; b"" for none."""
        log = self.folder / LOG
        with log.open("ab") as output:
            begun = output.tell()
            if self.process is None or self.process.poll() is not None:
                self.process = spawn_own(_ENTRY, str(self.folder / _LIST), directory=self.folder, output=output)
            else:
                self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: _answer(log, begun) or not self.is_alive(), _SECONDS, 0.01)
        return _answer(log, begun)

    def is_alive(self) -> bool:
        """Whether their process runs, or was never started."""
        return self.process is None or self.process.poll() is None

    def stop(self) -> None:
        """End them all."""
        if self.process is not None:
            stop(self.process, signal.SIGTERM, 2.0)


def _answer(log: Path, begun: int) -> bytes:
    """The first answer in the log after its byte `begun`; b"" for none."""
    with log.open("rb") as file:
        file.seek(begun)
        lines = file.read().split(b"\n")[:-1]
    return next((each for each in lines if each == _READY or each.startswith(_FAILED)), b"")


def main(path: str) -> None:
    """Serve the list of stand-ins in that file, until SIGTERM."""
    set_supervisor()
    try:
        asyncio.run(serve_list(Path(path), _tell))
    except EngineError as error:
        _tell(error)
        sys.exit(error.exit_code)


def _tell(error: EngineError | None) -> None:
    sys.stdout.buffer.write((_READY if error is None else _FAILED + encode(error.diagnostics)) + b"\n")
    sys.stdout.buffer.flush()
