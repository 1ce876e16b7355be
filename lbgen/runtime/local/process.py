"""Run an engine as a local process: start, reload, stop."""

from __future__ import annotations

import os
import shutil
import signal
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.checks import FILE as ORDER
from lbgen.engines.rendered import render_with
from lbgen.plan.model import Protocol
from lbgen.plan.overlay import with_admin, with_version
from lbgen.runtime.common import ports
from lbgen.runtime.common.driver import START_SECONDS
from lbgen.runtime.common.executables import find, fitting
from lbgen.runtime.common.workers import wait_until_closed, workers
from lbgen.runtime.local import agent
from lbgen.runtime.local.run_as import accessible_copy, chown_tree, engine_user, is_reachable, make_engine_directory
from lbgen.runtime.local.spawn import KILLED, how_ended, spawn, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.api import Binary, Engine, ProcessSpec
    from lbgen.engines.rendered import Rendered
    from lbgen.plan.model import Listener, Plan
    from lbgen.runtime.common.process_id import ProcessId
    from lbgen.runtime.local.network import Network
    from lbgen.runtime.local.spawn import Process

LOG = "engine.log"
STOP_SECONDS = 5.0
_AGENT_STOP_SECONDS = 2.0
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared with, not bound


@dataclass(slots=True)
class EngineProcess:
    """One running engine: `plan` is what it serves, `directory` holds its files and `engine.log`."""

    engine: str
    title: str
    version: str
    binary: Binary
    plan: Plan
    directory: Path
    process: Process
    spec: ProcessSpec = field(repr=False)
    network: Network | None = None  # where it runs; of a kernel engine, `process` only holds that namespace
    agent: Process | None = None  # checks endpoints for an engine without active checks
    draining: list[Process] = field(default_factory=list)  # predecessors of `process` that still run
    epoch: int = 0
    old_workers: tuple[ProcessId, ...] = ()  # from before the last reload signal
    death: signal.Signals | None = signal.SIGTERM  # sent to it and its agent when this process ends; None = they stay

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> Path:
        return self.directory / LOG

    def address(self, listener: str) -> tuple[str, int]:
        """Host and port to connect to for the listener of that name; KeyError when there is none."""
        found = self.plan.listener(listener)
        if self.network is not None and (self.spec.kernel or found.address in _EVERYWHERE):
            return self.network.inside, found.port
        return ports.client_address(found.address), found.port

    def access_lines(self) -> list[str]:
        """The lines of its access log, or of its output where it logs there."""
        file = self.directory / (self.spec.access_log or LOG)
        return file.read_text("utf-8", "replace").splitlines() if file.exists() else []

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def stays(self) -> None:
        """Raise EngineError LB403 with the log's last lines when it has ended."""
        code = self.process.poll()
        if code is not None:
            raise failure(self.title, f"{self.title} {self.binary.version} {how_ended(code)}", self.log, code)

    def tail(self, lines: int = 15) -> str:
        """The last lines of its output."""
        return tail(self.log, lines)

    def request_stop(self) -> None:
        """Send the graceful stop without waiting, to stop several engines at once; `stop` then waits."""
        self.stop_agent()
        if not self.spec.kernel and self.is_alive():
            self.process.send_signal(self.spec.stop)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop it gracefully, and kill it after `seconds`; no effect when it has ended."""
        self.stop_agent()
        if not self.spec.kernel:
            stop(self.process, signal.Signals(self.spec.stop), seconds)
            for each in self.draining:
                stop(each, signal.Signals(self.spec.stop), seconds)
            for name in self.spec.leftovers:
                Path(name).unlink(missing_ok=True)
        elif self.network is not None and self.is_alive():
            for command in self.spec.teardown:
                self.network.run_command(command, self.directory)

    def stop_agent(self) -> None:
        """Stop its agent, if there is one."""
        if self.agent is not None:
            stop(self.agent, signal.SIGTERM, _AGENT_STOP_SECONDS)

    def reload(self, plan: Plan, spec: ProcessSpec, *, succeeded: bool = True) -> None:
        """Have the engine load the files in its folder, which are those of `plan`; `spec` is how it would be started on
        them. `succeeded` False: it watches these files, and needs no hot restart. The agent keeps its results.
        EngineError when the kernel refuses the files."""
        if self.spec.kernel:
            assert self.network is not None  # noqa: S101 - it was started in one
            for command in spec.setup:
                self.network.run_command(command, self.directory)
            for command in set(self.spec.teardown) - set(spec.teardown):
                self.network.run_command(command, self.directory)
        elif spec.successive and succeeded:
            self._hot_restart(plan, spec)
        elif spec.reload is not None and self.is_alive():
            self.old_workers = workers(self.pid)
            self.process.send_signal(spec.reload)
        self.plan, self.spec = plan, spec
        if spec.agent:
            self.restart_agent()
        else:
            self.agent = None

    def wait_loaded(self, seconds: float) -> None:
        """Return once workers from before the last reload accept no connections: until then they may answer probes.
        EngineError LB403 with the log's last lines when they still do after `seconds`."""
        listening = {each.port for each in self.plan.listeners if each.protocol is Protocol.TCP}
        if not wait_until_closed(self.old_workers, listening, seconds):
            raise failure(self.title, f"{self.title} has not loaded the files after {seconds:g} s", self.log)
        self.old_workers = ()

    def _hot_restart(self, plan: Plan, spec: ProcessSpec) -> None:
        """Start the process that takes over. If the last one died during its takeover, its predecessor still serves."""
        if not self.is_alive() and self.draining and self.draining[-1].poll() is None:
            self.process = self.draining.pop()
            self.epoch -= 1
        process = _spawn(spec, plan, self.directory, self.network, self.epoch + 1, self.death)
        self.draining = [*(each for each in self.draining if each.poll() is None), self.process]
        self.epoch += 1
        self.process = process

    def restart(self) -> None:
        """Restart the engine, which has died, on its files. Not for kernel engines."""
        stop(self.process, signal.SIGKILL, 0)  # workers may outlive their master and hold the ports
        for each in self.draining:
            stop(each, signal.SIGKILL, 0)
        self.start_process()

    def start_process(self) -> None:
        """Start the engine, of which no process runs, on its files."""
        self.draining, self.epoch = [], 0
        self.process = _spawn(self.spec, self.plan, self.directory, self.network, death=self.death)

    def restart_agent(self) -> None:
        """Restart the agent, which continues from its saved results."""
        netns = None if self.network is None else self.network.holder.pid
        self.agent = agent.start(self.engine, self.directory, netns, self.death)


def tail(log: Path, lines: int = 15) -> str:
    """The last `lines` of a log, indented; empty when there are none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - 65_536))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:])


def start(
    target: Engine,
    plan: Plan,
    binary: Binary,
    version: str,
    directory: Path,
    accept: tuple[str, ...] = (),
    network: Network | None = None,
    rendered: Rendered | None = None,
    death: signal.Signals | None = signal.SIGTERM,
) -> EngineProcess:
    """Render `plan` into `directory` and start the engine there, without waiting until it listens.

    It runs in `network`, if given; a kernel engine needs one, in which it serves at every address and reaches endpoints
    at `network.host`. `rendered` are files to use instead. `death`: see `EngineProcess`.

    Raises LbgenError (verdicts), EngineError LB404 (port taken), LB407 (needs root), LB408 (folder closed to nobody).
    """
    user = engine_user()
    plan = with_version(plan, target.name, version)
    if not is_reachable(directory, user):
        message = f"{directory} cannot be reached by the user nobody, who runs the engines"
        raise EngineError(Diagnostic("LB408", message, hint="choose a folder that others may enter"))
    spec = target.process(plan, binary, directory)
    if rendered is not None:
        spec = replace(spec, ready="")  # their admin port is unknown
    if spec.ready and plan.admin_port is None:
        plan = with_free_admin_port(plan)
    rendered = rendered or render_with(target, plan, version, accept)
    if spec.kernel and network is None:
        raise TypeError("a kernel engine needs a network")
    if network is None:
        for listener in plan.listeners:
            if listener.protocol is Protocol.TCP:
                field = f"{listener.field}.port"
                ports.claim(listener.address, listener.port, field, privileged=user.uid is not None)
    rendered.write(directory)
    log = directory / LOG
    log.touch()
    if network is not None and spec.kernel:
        for command in spec.setup:
            network.run_command(command, directory)
        holder = network.holder
        return EngineProcess(
            target.name, target.title, version, binary, plan, directory, holder, spec, network, death=death
        )
    binary = accessible_copy(binary, directory, user)
    spec = replace(target.process(plan, binary, directory), ready=spec.ready)
    chown_tree(directory, user)
    process = _spawn(spec, plan, directory, network, death=death)
    handle = EngineProcess(
        target.name, target.title, version, binary, plan, directory, process, spec, network, death=death
    )
    if spec.agent and ORDER in rendered:  # the caller's files may lack it
        handle.restart_agent()
    return handle


def with_free_admin_port(plan: Plan, taken: frozenset[int] = frozenset()) -> Plan:
    """`plan` with a free loopback port for the engine's status, none of `taken`. Raises EngineError LB404."""
    taken |= {listener.port for listener in plan.listeners}
    return with_admin(plan, ports.free_port("127.0.0.1", 20_000 + os.getpid() % 4_000, taken), shared=True)


def _spawn(
    spec: ProcessSpec,
    plan: Plan,
    directory: Path,
    network: Network | None,
    epoch: int = 0,
    death: signal.Signals | None = signal.SIGTERM,
) -> Process:
    user = engine_user()
    low = user.uid is not None and any(x.port < ports.first_unprivileged() for x in plan.listeners)
    netns = None if network is None else network.holder.pid
    argv = tuple(word.replace("{epoch}", str(epoch)) for word in spec.successive) or spec.argv
    with (directory / LOG).open("ab") as output:
        return spawn(
            argv,
            user=user,
            directory=directory,
            output=output,
            env=dict(spec.env),
            death=death,
            low_ports=low,
            netns=netns,
            keep=spec.dies_with_parent and death is None,
        )


def wait_listening(handle: EngineProcess, seconds: float = START_SECONDS) -> None:
    """Return once every listener accepts connections, or is bound for UDP, and the engine's readiness path answers.

    EngineError LB403 with the log's last lines when it ends, or is too slow.
    """
    if handle.network is not None and not handle.spec.kernel:
        handle.network.run_inside(lambda: _wait_listening(handle, seconds))
    else:
        _wait_listening(handle, seconds)


def _wait_listening(handle: EngineProcess, seconds: float) -> None:
    title = handle.title
    end = time.monotonic() + seconds
    waiting = [x for x in handle.plan.listeners if not handle.spec.kernel]
    pause = 0.005
    while True:
        code = handle.process.poll()
        if code is not None:
            raise failure(title, f"{title} {handle.binary.version} {how_ended(code)} while starting", handle.log, code)
        waiting = [x for x in waiting if not _listens(x)]
        if not waiting and _is_ready(handle):
            return
        if time.monotonic() > end:
            if not waiting:
                raise failure(title, f"{title} is not ready after {seconds:g} s", handle.log)
            names = ", ".join(f"{x.name} ({x.address} port {x.port})" for x in waiting)
            raise failure(title, f"{title} does not accept on {names} after {seconds:g} s", handle.log)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


def _listens(listener: Listener) -> bool:
    if listener.protocol is Protocol.UDP:
        return ports.is_bound_for_udp(listener.address, listener.port)
    return ports.accepts(listener.address, listener.port)


def _is_ready(handle: EngineProcess) -> bool:
    if not handle.spec.ready:
        return True
    url = f"http://127.0.0.1:{handle.plan.admin_port}{handle.spec.ready}"
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # http to loopback
            return bool(answer.status == HTTPStatus.OK)
    except OSError:  # also an HTTP error
        return False


def failure(title: str, message: str, log: Path, code: int = 0) -> EngineError:
    """LB403 with the last lines of the log; `code` is the exit status of a process that ended."""
    said = tail(log)
    message = f"{message}; {title} said:\n{said}" if said else f"{message} and said nothing"
    return EngineError(Diagnostic("LB403", message, hint=KILLED if code < 0 else ""))


@contextmanager
def run_engine(
    target: Engine | str,
    plan: Plan,
    binary: Binary | None = None,
    directory: Path | None = None,
    *,
    version: str | None = None,
    accept: tuple[str, ...] = (),
    seconds: float = START_SECONDS,
    network: Network | None = None,
    rendered: Rendered | None = None,
) -> Iterator[EngineProcess]:
    """Serve `plan` on its own ports with one engine for as long as the block lasts.

    `binary` None: found on this host, of `version` or of `engines.<engine>.version` (default: the newest supported one
    here). `directory` None: a temporary one. A kernel engine (nftables) needs a `network` of
    `lbgen.runtime.local.network.network()`, with endpoints on its `host` address; others may run in one. `rendered` are
    files to use as they are.
    Raises what `start` and `wait_listening` raise, and EngineError LB402.
    """
    if isinstance(target, str):
        target = engine_by_name(target)
    if binary is None:
        binary, found = find(target, version or plan.options(target.name).version)
    else:
        found = fitting(target, binary)
    made = None if directory is not None else make_engine_directory(f"lbgen-{target.name}-", engine_user())
    place = directory or made
    assert place is not None  # noqa: S101 - one of the two
    try:
        handle = start(target, plan, binary, found, place, accept, network, rendered)
        try:
            wait_listening(handle, seconds)
            yield handle
        finally:
            handle.stop()
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
