"""The process that supervises a local stack, as commands see it: stop it with all of its stack, and await its end."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from lbgen.runtime.common import state
from lbgen.runtime.common.progress import Progress, Step
from lbgen.runtime.local.adopt import kill_all_in

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from lbgen.runtime.common.process_id import ProcessId
    from lbgen.runtime.common.state import StackState

STOP_SECONDS = 30.0
_ENDING_SECONDS = 5.0
CHILDREN: dict[int, subprocess.Popen[bytes]] = {}  # supervisors that this process started


def stop(stack: StackState, progress: Callable[[Progress], None] | None = None) -> None:
    supervisor = stack.supervisor
    supervisor.send(signal.SIGTERM)
    limit = time.monotonic() + STOP_SECONDS
    while supervisor.alive() and time.monotonic() < limit:
        _reap(supervisor.pid)
        time.sleep(0.01)
    supervisor.send(signal.SIGKILL)
    for engine in stack.engines:
        kill_all_in(engine.directory)
        if progress is not None:
            progress(Progress(Step.STOPPED, engine.name))
    kill_all_in(str(state.folder(stack.name)))
    state.forget(stack)


def has_ended(supervisor: ProcessId) -> bool:
    """Whether the supervisor ends within 5 s: a killed process closes its sockets before it ends."""
    limit = time.monotonic() + _ENDING_SECONDS
    while supervisor.alive() and time.monotonic() < limit:
        _reap(supervisor.pid)
        time.sleep(0.01)
    return not supervisor.alive()


def _reap(pid: int) -> None:
    """Collect the exit status of a supervisor that is our child (up and down in one Python process)."""
    child = CHILDREN.get(pid)
    if child is not None and child.poll() is not None:
        del CHILDREN[pid]
