"""A running engine as a local process: its address and log, reload, restart and stop."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from msgspec import Struct, field

from lbgen.agent.run import import_modules, serve
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.engines.api import Binary, ProcessSpec
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Plan, Protocol
from lbgen.runtime.common import ports
from lbgen.runtime.common.logs import tail
from lbgen.runtime.common.ports import LOOPBACK
from lbgen.runtime.common.processes import ProcessId, closed, group_members, wait_heard, workers
from lbgen.runtime.common.state import AGENT_LOG
from lbgen.runtime.local.exec_wrapper import drop_privileges, join_network
from lbgen.runtime.local.network import Network
from lbgen.runtime.local.spawn import KILLED, Process, User, engine_user, how_ended, spawn, spawn_own, stop

if TYPE_CHECKING:
    import subprocess


LOG = "engine.log"
STOP_SECONDS = 5.0
_AGENT_STOP_SECONDS = 2.0


class EngineProcess(Struct):
    """One running engine: `plan` is what it serves, `directory` holds its files and `engine.log`."""

    engine: str
    title: str
    version: str
    binary: Binary
    plan: Plan
    directory: Path
    process: Process
    spec: ProcessSpec
    network: Network | None = None  # where it runs; without `spec.argv`, `process` only holds that namespace
    agent: Process | None = None  # checks endpoints for an engine without active checks
    draining: list[Process] = field(default_factory=list)  # predecessors of `process` that still run
    epoch: int = 0
    old_workers: tuple[ProcessId, ...] = ()  # from before the last reload, or the process that reloads by itself
    old_ports: frozenset[int] = frozenset()  # on which these may listen no more
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
        if self.network is not None and is_every_address(found.address):
            return self.network.inside, found.port
        return ports.client_address(found.address), found.port

    @property
    def client(self) -> str:
        """The address of this host's clients, as the engine sees it at `address`."""
        return LOOPBACK if self.network is None else self.network.host

    def access_lines(self) -> list[str]:
        """The lines of its access log, or of its output where it logs there."""
        file = self.directory / (self.spec.access_log or LOG)
        return file.read_text("utf-8", "replace").splitlines() if file.exists() else []

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None

    def ensure_alive(self) -> None:
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
        if self.spec.argv and self.is_alive():
            self.process.send_signal(self.spec.stop)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Stop it gracefully, and kill it after `seconds`; no effect when it has ended."""
        self.stop_agent()
        if self.spec.argv:
            stop(self.process, signal.Signals(self.spec.stop), seconds)
            for each in self.draining:
                stop(each, signal.Signals(self.spec.stop), seconds)
            for name in self.spec.cleanup:
                Path(name).unlink(missing_ok=True)
        if self.spec.kernel and self.network is not None and self.network.holder.poll() is None:
            for command in self.spec.teardown:
                self.network.run_command(command, self.directory)

    def stop_agent(self) -> None:
        """Stop its agent, if there is one."""
        if self.agent is not None:
            stop(self.agent, signal.SIGTERM, _AGENT_STOP_SECONDS)

    def note_workers(self, plan: Plan) -> None:
        """Note the processes that serve before a reload to `plan`, for `wait_loaded`. This is what holds for an engine
        that follows its files by itself."""
        self.old_workers = () if self.spec.kernel else group_members(self.pid)
        self.old_ports = _tcp_ports(self.plan) - _tcp_ports(plan)

    def signal_reload(self, number: signal.Signals, plan: Plan) -> None:
        """Have it load its files by a signal."""
        if self.is_alive():
            if not self.spec.kernel:
                self.old_workers = workers(self.pid)
                self.old_ports = _tcp_ports(self.plan) | _tcp_ports(plan)
            self.process.send_signal(number)

    def wait_loaded(self, seconds: float) -> None:
        """Return once workers from before the last reload accept no connections: until then they may answer probes, and
        hold ports that are no longer listened on. EngineError LB403 with the log's last lines when they still do after
        `seconds`."""
        if not wait_heard(lambda: closed(self.old_workers, self.old_ports), self._remind, seconds):
            raise failure(self.title, f"{self.title} has not loaded the files after {seconds:g} s", self.log)
        self.old_workers = ()

    def _remind(self) -> None:
        if self.spec.reload is not None and self.is_alive():
            self.process.send_signal(self.spec.reload)

    def hot_restart(self, plan: Plan, spec: ProcessSpec) -> None:
        """Start the process that takes over. If the last one died during its takeover, its predecessor still serves."""
        if not self.is_alive() and self.draining and self.draining[-1].poll() is None:
            self.process = self.draining.pop()
            self.epoch -= 1
        process = spawn_engine(spec, plan, self.directory, self.network, self.epoch + 1, self.death)
        self.draining = [*(each for each in self.draining if each.poll() is None), self.process]
        self.epoch += 1
        self.process = process
        self.old_workers = tuple(member for each in self.draining for member in group_members(each.pid))

    def restart(self) -> None:
        """Restart the engine, which has died, on its files. Not for one without a process."""
        stop(self.process, signal.SIGKILL, 0)  # workers may outlive their master and hold the ports
        for each in self.draining:
            stop(each, signal.SIGKILL, 0)
        self.start_process()

    def start_process(self) -> None:
        """Start the engine, of which no process runs, on its files."""
        self.draining, self.epoch = [], 0
        self.process = spawn_engine(self.spec, self.plan, self.directory, self.network, death=self.death)

    def metrics(self) -> str:
        """The metrics that its agent serves, read where that runs; OSError when it does not answer."""
        where = self.plan.metrics
        assert where is not None  # noqa: S101  # the caller knows

        def read() -> str:
            with urlopen(f"http://{where.address}:{where.port}/metrics", timeout=5) as answer:
                return str(answer.read(), "utf-8")

        return read() if self.network is None else self.network.run_inside(read)

    def restart_agent(self) -> None:
        """Restart the agent, which continues from its saved results."""
        netns = None if self.network is None else self.network.holder.pid
        store = None if self.plan.acme is None else self.plan.acme.store
        self.agent = start_agent(self.engine, self.directory, netns, self.death, store, kernel=self.spec.kernel)


def spawn_engine(
    spec: ProcessSpec,
    plan: Plan,
    directory: Path,
    network: Network | None,
    epoch: int = 0,
    death: signal.Signals | None = signal.SIGTERM,
) -> Process:
    user = User() if spec.kernel else engine_user()
    low = user.uid is not None and any(x.port < ports.first_unprivileged() for x in plan.listeners)
    netns = None if network is None else network.holder.pid
    argv = tuple(word.replace("{epoch}", str(epoch)) for word in spec.hot_restart_argv) or spec.argv
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


def failure(title: str, message: str, log: Path, code: int = 0) -> EngineError:
    """LB403 with the last lines of the log; `code` is the exit status of a process that ended."""
    said = tail(log)
    message = f"{message}; {title} said:\n{said}" if said else f"{message} and said nothing"
    return EngineError(Diagnostic("LB403", message, hint=KILLED if code < 0 else ""))


def _tcp_ports(plan: Plan) -> frozenset[int]:
    return frozenset(each.port for each in plan.listeners if each.protocol is Protocol.TCP)


AGENT_ENTRY = "lbgen.runtime.local.engine_process:agent_main"


def start_agent(
    engine: str,
    directory: Path,
    netns: int | None = None,
    death: signal.Signals | None = signal.SIGTERM,
    store: str | None = None,
    *,
    kernel: bool = False,
) -> subprocess.Popen[bytes]:
    """Start the agent of `engine`, whose files lie in `directory`; it gets the signal `death` (None = none) when this
    process ends. `netns` is a process whose network namespace it joins, as the engine did. `store`: where certificates
    from ACME authorities are kept. `kernel`: it loads rules, so that it keeps the caller's user."""
    user = User() if kernel else engine_user()
    rights = {"parent": os.getpid(), "uid": user.uid, "gid": user.gid, "death": None if death is None else int(death)}
    with (directory / AGENT_LOG).open("ab") as output:
        return spawn_own(AGENT_ENTRY, [engine, netns, rights, store], directory=directory, output=output)


def agent_main(order: list[Any]) -> None:
    """The child process: import everything, then drop privileges, as that user may be unable to read the modules."""
    engine, netns, rights, store = order
    try:
        import_modules(engine, Path.cwd())
        # The folders above are closed to the engines' user: it reaches the store by a descriptor.
        kept = None if store is None else Path(f"/proc/self/fd/{os.open(store, os.O_RDONLY | os.O_DIRECTORY)}")
        if netns is not None:
            join_network(netns)
        drop_privileges(**rights)
        serve(Path.cwd(), kept)
    except LbgenError as error:
        sys.exit(str(error))
