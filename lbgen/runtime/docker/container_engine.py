"""An engine in a container as a reload sees it: exchange its files, signal it, restart its agent."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from signal import Signals
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from lbgen.agent import state_file as health
from lbgen.agent.steering import steering_files
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.api import SECRETS, ProcessSpec
from lbgen.engines.rendered import Rendered
from lbgen.plan.model import Plan, Protocol
from lbgen.runtime.common import processes
from lbgen.runtime.common.driver import START_SECONDS
from lbgen.runtime.common.processes import wait_heard, wait_until
from lbgen.runtime.common.running_engine import RunningEngine
from lbgen.runtime.docker import container, container_files, desired, helper_image
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_files import File, rendered_files
from lbgen.runtime.docker.inspect import fetch_status
from lbgen.runtime.docker.labels import RECORD_FILE, Record, Role

if TYPE_CHECKING:
    from docker.models.containers import Container

    from lbgen.runtime.docker.converge import StackContainer


class WorkerProbe(Struct, frozen=True):
    """`handle` runs `lbgen.runtime.common.processes` in the process and network namespaces of an engine."""

    handle: Container

    @classmethod
    def start(cls, engine: StackContainer, plan: Plan, helper: str) -> WorkerProbe:
        """Return once the workers that run now are listed. `helper` is the helper image, `plan` the one to load.

        Raises EngineError LB403 (it does not start), LB421.
        """
        ports = [str(x.port) for x in plan.listeners if x.protocol is Protocol.TCP]
        spec = ContainerSpec(
            name=f"{engine.name}-workers-{secrets.token_hex(2)}",
            image=helper,
            argv=(helper_image.PYTHON, "-m", "lbgen.runtime.common.processes", *ports),
            files={},
            env=helper_image.ENVIRONMENT,
            stop="SIGKILL",
            inside=engine.name,
            joins=str(engine.handle.attrs["HostConfig"]["NetworkMode"]).removeprefix("container:"),
            once=True,
        )
        probe = cls(container.create(engine.handle.client, spec, Record(engine.record.stack, Role.CHECK, ""), ""))
        try:
            container.start(probe.handle, spec)
            if not wait_until(lambda: processes.READY in container.tail(probe.handle), START_SECONDS):
                raise EngineError(Diagnostic("LB403", f"{spec.name} did not start"))
        except BaseException:
            probe.remove()
            raise
        return probe

    def wait(self, title: str, remind: Callable[[], None], seconds: float) -> None:
        """Return once the workers from before accept no connections; `remind` sends the signal again. EngineError LB403
        after `seconds`, LB421."""
        try:
            if not wait_heard(self._ended, remind, seconds):
                raise EngineError(Diagnostic("LB403", f"{title} has not loaded the files after {seconds:g} s"))
        finally:
            self.remove()

    def _ended(self) -> bool:
        with docker_errors(f"looking at {self.handle.name}"):
            self.handle.reload()
        return bool(self.handle.status == "exited")

    def remove(self) -> None:
        """Remove the container, whatever it does."""
        with docker_errors(f"removing {self.handle.name}"):
            container.remove(self.handle)


_NEXT = ".next"  # staging folder for files that the engine watches
_AGENT_SECONDS = 2
_BEGUN = (b" checks ", b" counts ", b" keeps ")  # parts of the agent's first line


class ContainerEngine(RunningEngine):
    """An engine in a container. `agent` is the agent's container, `parts` are all containers of the stack, `helper` is
    the helper image."""

    def __init__(
        self,
        there: StackContainer,
        plan: Plan,
        spec: ProcessSpec,
        addresses: Mapping[str, tuple[str, int]],
        helper: str,
        client: str,
        agent: StackContainer | None,
        parts: Sequence[StackContainer],
    ) -> None:
        record = there.record
        title = f"{record.title} {record.program_version or record.version}"
        super().__init__(record.engine, title, plan, spec, client)
        self.container = there
        self.addresses = addresses
        self.helper = helper
        self.agent = agent
        self.parts = parts
        self._probe: WorkerProbe | None = None
        self._before: dict[str, File] = {}
        self._restarts = restart_count(there)

    def address(self, listener: str) -> tuple[str, int]:
        return self.addresses[listener]

    def read(self, name: str) -> str:
        return (container_files.read(self.container.handle, name) or b"").decode("utf-8", "replace")

    def digests(self, names: Iterable[str]) -> Mapping[str, str]:
        """Digests of its files by name. After an interrupted change they are computed, at least those of `names`."""
        record = self.container.record
        if record.hash:
            return record.files
        read = {name: container_files.read(self.container.handle, name) for name in {*record.files, *names}}
        return {name: File(content).digest() for name, content in read.items() if content is not None}

    def changed(self, rendered: Rendered) -> Collection[str]:
        files = rendered_files(rendered)
        now = self.digests(files)
        return [x for x in {*files, *now} if x not in files or files[x].digest() != now.get(x)]

    def save(self, rendered: Rendered) -> None:
        secret = self._secrets(rendered)
        names = {*self.changed(rendered), *(self.watched_texts() if self.watches_files else ())}
        content = {name: container_files.read(self.container.handle, name) or b"" for name in names}
        self._before = {name: File(text, name in secret) for name, text in content.items()}

    def saved_texts(self) -> Mapping[str, str] | None:
        texts = {name: file.content.decode("utf-8", "replace") for name, file in self._before.items() if file.content}
        return texts if self._before else None

    def reverts_by_itself(self, saved: Mapping[str, str]) -> bool:
        return self.watches_files

    def write(self, rendered: Rendered) -> None:
        secret, files = self._secrets(rendered), rendered_files(rendered)
        # Engine images may have no `rm`: a file that is no longer rendered becomes empty.
        self._exchange({name: files.get(name, File(secret=name in secret)) for name in self.changed(rendered)})

    def _secrets(self, rendered: Rendered) -> set[str]:
        made = {name for name in self.container.record.files if name.startswith(SECRETS)}  # of the version before
        return made | {copy.path for copy in (*rendered.copies, *self.plan.files) if copy.secret}

    def put_saved_back(self) -> None:
        self._exchange(self._before)

    def put(self, files: Mapping[str, str]) -> None:
        self._exchange({name: File(text.encode()) for name, text in files.items()})

    def put_rules(self, name: str, text: str) -> None:
        container_files.put(self.container.handle, {name: File(text.encode())}, root=True)

    def watched_texts(self) -> Mapping[str, str]:
        folders = [each.rstrip("/") for each in self.spec.watched]
        found = [container_files.read_folder(self.container.handle, each) for each in folders]
        return {name: content.decode() for each in found for name, content in each.items() if content}

    def run(self, command: Sequence[str]) -> None:
        container.execute(self.container.handle, command)

    def signal(self, number: Signals, plan: Plan) -> None:
        try:
            if not self.spec.kernel:
                self._probe = WorkerProbe.start(self.container, plan, self.helper)
        finally:  # also without a probe: the caller may be rolling back
            container.signal(self.container.handle, number.name)

    def hot_restart(self, plan: Plan, spec: ProcessSpec) -> None:
        container.signal(self.container.handle, desired.NEXT_SIGNAL)

    def stop_agent(self) -> None:
        if self.agent is not None:
            with docker_errors(f"stopping {self.agent.name}"):
                self.agent.handle.stop(timeout=_AGENT_SECONDS)

    def start_agent(self) -> None:
        if self.agent is not None:
            with docker_errors(f"starting {self.agent.name}"):
                self.agent.handle.start()

    def agent_files(self, order: str) -> Mapping[str, str]:
        with tempfile.TemporaryDirectory() as place:
            for name, (said, when) in container_files.read_with_times(self.container.handle, health.FILE).items():
                path = Path(place) / name
                path.write_bytes(said)
                os.utime(path, (when, when))
            return steering_files(order, Path(place))

    def ask(self, paths: Sequence[str]) -> Mapping[str, str] | None:
        return fetch_status(self.container, self.parts, paths)

    def mark(self) -> float:
        return time.time()

    def output(self, mark: float) -> str:
        with docker_errors(f"reading the log of {self.container.name}"):
            said: bytes = self.container.handle.logs(stdout=False, since=mark, tail=15)
        return said.decode("utf-8", "replace")

    def _exchange(self, files: Mapping[str, File]) -> None:
        unknown = {RECORD_FILE: File(replace(self.container.record, hash="").text())}  # until it serves
        # One that becomes empty is nothing to read half of.
        seen = {name: file for name, file in files.items() if self.spec.watches(name) and file.content}
        direct = {name: file for name, file in files.items() if name not in seen}
        staged = {f"{_NEXT}/{name}": file for name, file in seen.items()}
        folders = list(dict.fromkeys(map(_folder, seen)))
        container_files.put(self.container.handle, unknown | direct | staged, root=self.spec.kernel, folders=folders)
        # Watched files appear by renaming, so that the engine never reads half of one.
        for folder in folders:
            names = [f"{_NEXT}/{name}" for name in seen if _folder(name) == folder]
            container.execute(self.container.handle, ("mv", "-f", *names, folder))

    def resource_hint(self) -> str:
        return memory_hint(self.container.handle)

    def wait_listening(self, seconds: float) -> None:
        """Docker itself listens on the published ports: the workers and the routes tell whether the engine does."""
        self.ensure_alive()
        if self._probe is not None:
            probe, self._probe = self._probe, None
            probe.wait(self.title, self._remind, seconds)
            self.ensure_alive()

    def _remind(self) -> None:
        if self.spec.reload is not None:
            container.signal(self.container.handle, self.spec.reload.name)

    def ensure_alive(self) -> None:
        ensure_alive(self.container, self._restarts, "while it took over the change")

    def commit(self) -> None:
        """Tell a hot-restarting engine that the new process stays."""
        if self.spec.hot_restart_argv:
            container.signal(self.container.handle, desired.COMMIT_SIGNAL)

    def write_record(self, record: Record) -> None:
        """Write its record for later commands."""
        container_files.put(self.container.handle, {RECORD_FILE: File(record.text())}, root=self.spec.kernel)


def _folder(name: str) -> str:
    parent = str(PurePosixPath(name).parent)
    return "" if parent == "." else parent


def wait_for_agent(handle: Container, seconds: float) -> None:
    """Wait until an agent checks endpoints, counts requests or keeps certificates. EngineError LB403 with its output if
    not."""

    def begun() -> bool:
        with docker_errors(f"reading what {handle.name} said"):
            said = handle.logs(tail=50)
        return any(word in said for word in _BEGUN)

    if not wait_until(begun, seconds):
        message = f"{handle.name} does not begin; it said:\n{container.tail(handle)}"
        raise EngineError(Diagnostic("LB403", message))


def restart_count(each: StackContainer) -> int:
    """How often docker has restarted it."""
    return int(each.handle.attrs.get("RestartCount") or 0)


def ensure_alive(each: StackContainer, before: int, when: str) -> None:
    """Raise EngineError LB403 with its last lines when a container has ended, or restarted since `before` restarts."""
    with docker_errors(f"looking at {each.name}"):
        each.handle.reload()
    state = each.handle.attrs["State"]
    if state["Status"] == "running" and restart_count(each) == before:
        return
    said = container.tail(each.handle)
    title = each.record.title or each.name
    ended = f"ended with exit status {state['ExitCode']} {when}"
    if state["Status"] == "running":
        ended = f"ended {when}, again and again" if restart_count(each) > before + 1 else f"ended {when}"
    message = f"{title} {ended}{_exit_reason(each, said)}; it said:\n{said or '  nothing'}"
    raise EngineError(Diagnostic("LB403", message))


def _exit_reason(each: StackContainer, said: str) -> str:
    """The reason, where it is the memory limit or an image of another processor."""
    if each.handle.attrs["State"].get("OOMKilled"):
        most = int(each.handle.attrs["HostConfig"].get("Memory") or 0) >> 20
        return f", as it needs more memory than the {most} MiB that containers.memory gives it"
    if container.OTHER_PROCESSOR in said:
        return (
            f", as the image {each.handle.attrs['Config']['Image']} is made for another processor (see `lbgen images`)"
        )
    return ""


_FULL = 0.9  # of its limit; inactive page cache does not count


def memory_hint(handle: Container) -> str:
    """A remedy when the container has reached its memory limit; "" when it has not, or its statistics are missing."""
    with suppress(EngineError), docker_errors(f"looking at the memory of {handle.name}"):
        return _hint(_stats(handle).get("memory_stats", {}))
    return ""


def _stats(handle: Container) -> dict[str, Any]:
    """Docker's statistics of one moment (`one_shot`: without the second sample, which takes a second)."""
    from docker.errors import InvalidVersion

    try:
        found = handle.client.api.stats(handle.id, stream=False, one_shot=True)
    except InvalidVersion:  # of docker 20.10 at least
        found = handle.stats(stream=False)
    return found if isinstance(found, dict) else {}


def _hint(memory: dict[str, Any]) -> str:
    limit = memory.get("limit") or 0
    details = memory.get("stats", {})
    used = (memory.get("usage") or 0) - (details.get("inactive_file") or details.get("total_inactive_file") or 0)
    refused = memory.get("failcnt") or 0  # failed allocations; cgroup v1 only
    if not limit or (used < _FULL * limit and not refused):
        return ""
    uses = f"it uses {used >> 20} of" if used >= _FULL * limit else "it has reached"
    return f"{uses} the {limit >> 20} MiB that containers.memory gives it, and may do little else: give it more"
