"""The local runtime: bring stacks of processes up, reload, list and end them. See `common.driver.Driver`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, UsageError
from lbgen.plan.overlay import with_real_endpoints, with_version
from lbgen.runtime.common import logs, selection, state
from lbgen.runtime.common.driver import DRAIN_SECONDS, RELOAD_SECONDS, START_SECONDS, Result
from lbgen.runtime.common.executables import find
from lbgen.runtime.common.locking import locked
from lbgen.runtime.common.progress import Progress, Step
from lbgen.runtime.common.reload import refusal
from lbgen.runtime.common.resolvers import judged
from lbgen.runtime.common.signals import deferred
from lbgen.runtime.common.time_limits import for_routes
from lbgen.runtime.local import journal, messages
from lbgen.runtime.local.adopt import kill_all_in
from lbgen.runtime.local.control_socket import connect
from lbgen.runtime.local.messages import (
    CommitRequest,
    EngineChoice,
    Failure,
    ReloadRequest,
    StartRequest,
    Success,
    TakeoverRequest,
)
from lbgen.runtime.local.process import tail
from lbgen.runtime.local.spawn import how_ended
from lbgen.runtime.local.tier_links import behind, connections, join, places
from lbgen.runtime.standins.plan import played, whose

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.logs import Line
    from lbgen.runtime.common.process_id import ProcessId
    from lbgen.runtime.common.selection import Skipped
    from lbgen.runtime.common.state import StackState

__all__ = ["behind", "choose", "connections", "end", "join", "lines", "places", "reload", "running", "up"]

_STOP_SECONDS = 30.0
_ENDING_SECONDS = 5.0
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}  # supervisors that this process started
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lbgen.runtime.local.supervisor import main; main(int(sys.argv[2]))"
)


def up(
    plan: Plan,
    engines: Sequence[Engine],
    *,
    insist: bool,
    backends: bool,
    accept: tuple[str, ...],
    progress: Callable[[Progress], None],
    seconds: float = START_SECONDS,
    drain: float = DRAIN_SECONDS,
) -> Result:
    """Bring `plan` up on `engines`. `insist`: the user named them, so that a refusal or a missing executable is an
    error; else such engines are skipped. An engine that needs root is skipped in any case while another one can run.

    Raises LbgenError (verdicts), EngineError LB402 to LB405, LB407, LB408.
    """
    del drain  # processes of one host cannot listen beside each other
    plan = plan if backends else with_real_endpoints(plan)
    chosen, skipped = choose(plan, engines, insist=insist, accept=accept)
    if plan.pools:
        progress(Progress(Step.POOLS, detail=whose(plan)))
    digest = messages.digest(plan, chosen, accept, backends=backends)
    with locked(f"stack-{plan.name}"):
        before, kept = state.read(plan.name), None
        replaced = False
        if before is not None:
            before = _ensure_supervisor(before, progress)
            if _is_up_to_date(before, digest):
                return Result(before, skipped, unchanged=True)
            taken_over = _try_reload(before, plan, chosen, accept, backends, progress)
            if taken_over is not None:
                return Result(taken_over.state, skipped, taken_over.warnings, reloaded=True)
            replaced = before.supervisor.alive()
            if replaced:
                progress(Progress(Step.REPLACING, detail=f"{plan.name} has changed; stopping what runs first"))
                kept = journal.read(state.folder(plan.name))
            _end(before)
        wanted = StartRequest(plan.name, digest, str(state.folder(plan.name)), plan, chosen, accept, backends, seconds)
        try:
            with locked("ports"):
                wanted = replace(wanted, engines=_assign_offsets(plan, chosen))
            done = _start_supervised(wanted, progress)
        except (LbgenError, KeyboardInterrupt) as error:
            if kept is not None:
                _restart_previous(kept.request, error)
            raise
        return Result(done.state, skipped, done.warnings, replaced=replaced)


def _restart_previous(before: StartRequest, error: BaseException) -> None:
    """Restart the stack that was stopped for a start that failed. EngineError with both reasons if that fails too."""
    with deferred():
        try:
            _start_supervised(before, lambda step: None)
        except LbgenError as second:
            first = error.diagnostics if isinstance(error, LbgenError) else ()
            raise EngineError((*first, *second.diagnostics)) from None


def reload(
    stack: StackState,
    plan: Plan,
    *,
    accept: tuple[str, ...],
    progress: Callable[[Progress], None],
    seconds: float,
) -> Result:
    """Have the stack's engines serve `plan` instead. See `lbgen.api.reload`."""
    with locked(f"stack-{stack.name}"):
        before = state.read(stack.name)
        if before is not None:
            _ensure_supervisor(before, progress, strict=True)
        done = _request_reload(stack.name, ReloadRequest(plan, accept, seconds), progress)
    return Result(done.state, (), done.warnings)


def _ensure_supervisor(before: StackState, progress: Callable[[Progress], None], *, strict: bool = False) -> StackState:
    """The stack, with a new supervisor if its own has ended and engines still serve. A failure to start one is raised
    only with `strict`."""
    if not before.committed or before.supervisor.alive() or not any(each.running for each in before.engines):
        return before
    try:
        done = _start_takeover(before, progress)
    except EngineError:
        if strict:
            raise
        return before
    return done.state


def _start_takeover(stack: StackState, progress: Callable[[Progress], None]) -> Success:
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
    _CHILDREN[process.pid] = process
    progress(Progress(Step.TAKEN_OVER, detail=f"{stack.name}, whose supervisor had ended"))
    return done


def _try_reload(
    before: StackState,
    plan: Plan,
    chosen: tuple[EngineChoice, ...],
    accept: tuple[str, ...],
    backends: bool,
    progress: Callable[[Progress], None],
) -> Success | None:
    """Reload what runs; None when the change needs a restart. Raises as `reload` does."""
    if not (before.committed and before.supervisor.alive() and all(x.running for x in before.engines)):
        return None
    engines = tuple((x.name, x.version, x.binary) for x in chosen)
    try:
        return _request_reload(
            before.name, ReloadRequest(plan, accept, for_routes(plan, RELOAD_SECONDS), engines, backends), progress
        )
    except EngineError as error:
        if any(each.code != "LB412" for each in error.diagnostics):
            raise
        return None


def _request_reload(name: str, asked: ReloadRequest, progress: Callable[[Progress], None]) -> Success:
    """Send the request to the supervisor, which completes it even if this process ends. If the supervisor ends, start
    another one."""
    before = state.read(name)
    wire = bytes(ForkingPickler.dumps(asked))  # before connecting: thousands of routes take seconds
    try:
        with connect(state.folder(name)) as pipe:
            pipe.send_bytes(wire)
            return _listen(pipe, progress)
    except (EOFError, ConnectionError, FileNotFoundError):
        if before is None or not _has_ended(before.supervisor):
            raise EngineError(refusal(f"the supervisor of {name} does not answer")) from None
        if not before.committed or not any(each.running for each in before.engines):
            raise EngineError(refusal(f"{name} does not run any more")) from None
    done = _start_takeover(before, progress)
    if done.state.changes > before.changes:
        return done
    message = f"the supervisor of {name} ended in the middle of the change; another one took over"
    outcome = f"{message}, the files before are in place again and serve"
    raise EngineError(Diagnostic("LB426", outcome, hint="run the command again"))


def _has_ended(supervisor: ProcessId) -> bool:
    """Whether the supervisor ends within 5 s: a killed process closes its sockets before it ends."""
    limit = time.monotonic() + _ENDING_SECONDS
    while supervisor.alive() and time.monotonic() < limit:
        _reap(supervisor.pid)
        time.sleep(0.01)
    return not supervisor.alive()


def choose(
    plan: Plan, engines: Sequence[Engine], *, insist: bool, accept: tuple[str, ...]
) -> tuple[tuple[EngineChoice, ...], Skipped]:
    """The engines that will run, and the skipped ones with reasons."""
    return selection.choose(engines, lambda target: _choose(plan, target, accept=accept), insist=insist)


def _choose(plan: Plan, target: Engine, *, accept: tuple[str, ...]) -> EngineChoice:
    asked = plan.options(target.name).version
    binary, version = None, asked
    try:
        binary, version = find(target, asked)
    except EngineError:
        # A refusal comes before a missing executable.
        _, problems = judged(plan, target, target.versions[0], accept)
        if problems:
            raise LbgenError(problems) from None
        raise
    plan, problems = judged(with_version(plan, target.name, version), target, version, accept)
    if problems:
        raise LbgenError(problems)
    kernel = target.process(plan, binary, Path("/")).kernel
    if kernel and os.geteuid() != 0:
        hint = "run as root, or leave it out"
        raise EngineError(Diagnostic("LB407", f"{target.title} needs root to load rules into the kernel", hint=hint))
    if kernel and len(played(plan)) < len(plan.pools):
        message = f"{target.title} runs in a network namespace from which only stand-ins can be reached"
        raise EngineError(Diagnostic("LB403", message, hint="load the rendered file on the balancer itself"))
    supplied = None if _installed(target) else target
    return EngineChoice(target.name, target.title, version, binary, kernel, plan.resolvers, supplied=supplied)


def _installed(target: Engine) -> bool:
    from lbgen.engines.api import engine, engine_names

    return target.name in engine_names() and engine(target.name) is target


def _assign_offsets(plan: Plan, chosen: tuple[EngineChoice, ...]) -> tuple[EngineChoice, ...]:
    """Assign port offsets to engines that share this host's network."""
    on_host = [(each.name, each.title) for each in chosen if not each.kernel]
    found = selection.offsets(plan, on_host, {}, (), lambda listener: listener.address)
    return tuple(replace(each, offset=found.get(each.name, 0)) for each in chosen)


def _is_up_to_date(before: StackState, digest: str) -> bool:
    alive = before.committed and before.supervisor.alive() and all(x.running for x in before.engines)
    return alive and before.digest == digest


def _start_supervised(order: StartRequest, progress: Callable[[Progress], None]) -> Success:
    """Start the supervisor and wait until the stack serves. After any error nothing of the stack is left."""
    folder = Path(order.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    process, pipe = _spawn_supervisor(folder, "wb")
    with pipe:
        try:
            pipe.send(order)
            _listen(pipe, progress)
            pipe.send(CommitRequest())
            done = _listen(pipe, progress)
        except (EOFError, OSError):
            _wait(process, _STOP_SECONDS)
            message = f"the supervisor of {order.name} {how_ended(process.returncode)}; nothing of {order.name} is left"
            said = tail(folder / state.SUPERVISOR_LOG)
            left = state.read(order.name)
            if left is not None:
                _end(left)
            kill_all_in(str(folder))
            shutil.rmtree(folder, ignore_errors=True)
            if said:
                message += f"; it said:\n{said}\n"
            raise EngineError(Diagnostic("LB426", message, hint="run the command again")) from None
        except BaseException:
            process.terminate()  # after the commit it does not end by itself
            _wait(process, _STOP_SECONDS)
            raise
    _CHILDREN[process.pid] = process
    return done


def _spawn_supervisor(folder: Path, mode: str) -> tuple[subprocess.Popen[bytes], Connection]:
    """A new supervisor that waits for its request, and the pipe to it; `mode` opens its log."""
    ours, theirs = socket.socketpair()
    path = json.dumps([entry or str(Path.cwd()) for entry in sys.path])
    with theirs, (folder / state.SUPERVISOR_LOG).open(mode) as output:
        process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-c", _BOOT, path, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # a Ctrl-C reaches only `up`, which then closes the pipe
            cwd="/",
            env={**os.environ, "LBGEN_STATE_DIR": str(state.root())},
        )
    return process, Connection(ours.detach())


def _listen(pipe: Connection, progress: Callable[[Progress], None]) -> Success:
    while True:
        said = pipe.recv()
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


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Stop a stack and remove what belongs to it, also without a supervisor; a newer stack of its name stays."""
    with locked(f"stack-{stack.name}"):
        found = state.read(stack.name)
        if found is not None and found.first == stack.first:
            _end(found, progress)


def lines(stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """The output of its processes, and the requests that they logged."""
    return logs.lines(stack, engine, follow=follow)


def _end(stack: StackState, progress: Callable[[Progress], None] | None = None) -> None:
    supervisor = stack.supervisor
    supervisor.send(signal.SIGTERM)
    limit = time.monotonic() + _STOP_SECONDS
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


def _reap(pid: int) -> None:
    """Collect the exit status of a supervisor that is our child (up and down in one Python process)."""
    child = _CHILDREN.get(pid)
    if child is not None and child.poll() is not None:
        del _CHILDREN[pid]


def running() -> tuple[StackState, ...]:
    """Every stack that has a record, also without a supervisor."""
    found = (state.read(name) for name in state.names())
    return tuple(each for each in found if each is not None)
