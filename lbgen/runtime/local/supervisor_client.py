"""Start and stop the supervisor of a local stack, and send it requests."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, UsageError
from lbgen.runtime.common import state
from lbgen.runtime.common.driver import RELOAD_SECONDS, Progress, Step
from lbgen.runtime.common.logs import tail
from lbgen.runtime.common.processes import ProcessId, wait_until
from lbgen.runtime.common.reload import refusal
from lbgen.runtime.common.saved import DecodeError
from lbgen.runtime.common.state import StackState
from lbgen.runtime.local.messages import (
    Answer,
    Connection,
    Failure,
    ReloadRequest,
    StartRequest,
    Success,
    TakeoverRequest,
    connect,
)
from lbgen.runtime.local.spawn import how_ended, kill_all_in, own_command

STOP_SECONDS = 30.0
CHILDREN: dict[int, subprocess.Popen[bytes]] = {}  # supervisors that this process started


def stop(stack: StackState, progress: Callable[[Progress], None] | None = None) -> None:
    supervisor = stack.supervisor
    supervisor.send(signal.SIGTERM)
    has_ended(supervisor, STOP_SECONDS)
    supervisor.send(signal.SIGKILL)
    for engine in stack.engines:
        kill_all_in(engine.directory)
        if progress is not None:
            progress(Progress(Step.STOPPED, engine.name))
    kill_all_in(str(state.folder(stack.name)))
    state.forget(stack)


def has_ended(supervisor: ProcessId, seconds: float = 5.0) -> bool:
    """Whether the supervisor ends within `seconds`: a killed process closes its sockets before it ends."""

    def ended() -> bool:
        _reap(supervisor.pid)
        return not supervisor.alive()

    return wait_until(ended, seconds, 0.01)


def _reap(pid: int) -> None:
    """Collect the exit status of a supervisor that is our child (up and down in one Python process)."""
    child = CHILDREN.get(pid)
    if child is not None and child.poll() is not None:
        del CHILDREN[pid]


_ENTRY = "lbgen.runtime.local.supervisor:main"


def start(order: StartRequest, progress: Callable[[Progress], None]) -> Success:
    """Start the supervisor and wait until the stack serves. After any error nothing of the stack is left."""
    folder = Path(order.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    process, pipe = _spawn_supervisor(folder, "wb")
    with pipe:
        try:
            pipe.send(order.as_message())
            done = _listen(pipe, progress)
        except (EOFError, OSError):
            _wait(process, STOP_SECONDS)
            message = f"the supervisor of {order.name} {how_ended(process.returncode)}; nothing of {order.name} is left"
            said = tail(folder / state.SUPERVISOR_LOG)
            left = state.read(order.name)
            if left is not None:
                stop(left)
            kill_all_in(str(folder))
            shutil.rmtree(folder, ignore_errors=True)
            if said:
                message += f"; it said:\n{said}\n"
            raise EngineError(Diagnostic("LB426", message, hint="run the command again")) from None
        except BaseException:
            process.terminate()  # after the commit it does not end by itself
            _wait(process, STOP_SECONDS)
            shutil.rmtree(folder, ignore_errors=True)
            raise
    CHILDREN[process.pid] = process
    return done


def take_over(stack: StackState, progress: Callable[[Progress], None]) -> Success:
    """Start a supervisor for a stack that has none. Raises EngineError, and leaves the stack as it was."""
    process, pipe = _spawn_supervisor(state.folder(stack.name), "ab")
    with pipe:
        try:
            pipe.send(TakeoverRequest(stack.name, str(state.folder(stack.name)), RELOAD_SECONDS))
            done = _listen(pipe, progress)
        except (EOFError, ConnectionError):
            process.wait()
            message = f"the supervisor that was to take {stack.name} over ended; its engines serve on"
            hint = f"run the command again; see {state.folder(stack.name) / state.SUPERVISOR_LOG}"
            raise EngineError(Diagnostic("LB426", message, hint=hint)) from None
    CHILDREN[process.pid] = process
    progress(Progress(Step.TAKEN_OVER, detail=f"{stack.name}, whose supervisor had ended"))
    return done


def request_reload(name: str, asked: ReloadRequest, progress: Callable[[Progress], None]) -> Success:
    """Send the request to the supervisor, which completes it even if this process ends. If the supervisor ends, start
    another one, which gets the request when the first one cannot have received it."""
    before = state.read(name)
    connected = False
    try:
        with connect(state.folder(name)) as pipe:
            connected = True
            pipe.send(asked)
            return _listen(pipe, progress)
    except (EOFError, ConnectionError, FileNotFoundError):
        if before is None or not has_ended(before.supervisor):
            raise EngineError(refusal(f"the supervisor of {name} does not answer")) from None
        if not before.committed or not any(each.running for each in before.engines):
            raise EngineError(refusal(f"{name} does not run any more")) from None
    done = take_over(before, progress)
    if not connected:
        return request_reload(name, asked, progress)
    if done.state.changes > before.changes:
        return done
    message = f"the supervisor of {name} ended in the middle of the change; another one took over"
    outcome = f"{message}, the files before are in place again and serve"
    raise EngineError(Diagnostic("LB426", outcome, hint="run the command again"))


def _spawn_supervisor(folder: Path, mode: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """A new supervisor that waits for its request, and the pipe to it; `mode` opens its log."""
    ours, theirs = multiprocessing.Pipe()
    with theirs, (folder / state.SUPERVISOR_LOG).open(mode) as output:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            own_command(_ENTRY, theirs.fileno()),
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C reaches only `up`, which then closes the pipe
            cwd="/",
            env={**os.environ, "LBGEN_STATE_DIR": str(state.root())},
        )
    return process, Connection(ours)


def _listen(pipe: Connection, progress: Callable[[Progress], None]) -> Success:
    while True:
        try:
            said: Answer = pipe.receive(Answer)
        except (DecodeError, ValueError):
            raise EngineError(refusal("the supervisor is another lbgen's, whose answers cannot be read")) from None
        if isinstance(said, Success):
            return said
        if isinstance(said, Failure):
            kinds: dict[int, type[LbgenError]] = {x.exit_code: x for x in (LbgenError, UsageError, EngineError)}
            raise kinds[said.exit_code](said.diagnostics)
        progress(said)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
