"""The process that serves the stand-ins of a local stack."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import ExitStack
from pathlib import Path

from lbgen.diagnostics import EngineError, LbgenError
from lbgen.runtime.local.control_socket import ControlSocket
from lbgen.runtime.local.messages import Failure
from lbgen.runtime.local.stand_ins import LOOK_SECONDS, SOCKET
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import StandIn
from lbgen.system_errors import set_supervisor, to_diagnostic

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
