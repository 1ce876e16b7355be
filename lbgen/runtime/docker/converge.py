"""Converge the actual containers of a stack to the desired ones, and roll back on failure."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.processes import defer_signals
from lbgen.runtime.docker import container, container_files, labels, network
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.labels import RECORD_FILE, STACK, Record, Role

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.container import ContainerSpec

STOP_SECONDS = 10
ASIDE = "-before"
_GOING = ("removing", "dead")  # docker's states of a container that is being removed
_RESTARTING = "restarting"  # docker's state of one that died and will be restarted
_AGAIN_SECONDS = 0.1
_TOGETHER = 4
_ORDER = (
    Role.CHECK,
    Role.ENDPOINT_RULES,
    Role.LOADER,
    Role.AGENT,
    Role.ENGINE,
    Role.PORTS,
    Role.ENDPOINTS,
)  # in which a stack is stopped
Exchange = tuple["ContainerSpec", Record, "StackContainer | None"]  # a container, what it is, the one that it replaces


class StackContainer(Struct, frozen=True):
    """An existing container of a stack."""

    handle: Container
    record: Record

    @property
    def name(self) -> str:
        return str(self.handle.name)

    @property
    def running(self) -> bool:
        return bool(self.handle.status == "running")


def list_containers(
    client: DockerClient, stack: str | None = None, *, labels_only: bool = False
) -> tuple[StackContainer, ...]:
    """The containers of a stack (None = of all stacks), sorted by name. `labels_only`: their records are as they were
    created, which saves a request for each; role, engine and title never change."""
    label = STACK if stack is None else f"{STACK}={stack}"
    with docker_errors("listing containers"):
        every = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    pairs = ((each, Record.from_labels(each.labels)) for each in every)
    now = (StackContainer(x, record if labels_only else _current_record(x, record)) for x, record in pairs if record)
    return tuple(sorted(now, key=lambda x: x.name))


def _summaries(client: DockerClient, stack: str) -> list[dict[str, Any]]:
    """Docker's list of the containers of a stack, by one request. Raises docker's errors."""
    found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": f"{STACK}={stack}"})
    return found


def _current_record(handle: Container, record: Record) -> Record:
    if record.role not in (Role.ENGINE, Role.ENDPOINTS, Role.PORTS):
        return record
    from docker.errors import NotFound

    try:
        return record.updated(container_files.read(handle, RECORD_FILE))
    except EngineError:
        with docker_errors(f"looking at the container {handle.name}"), suppress(NotFound):
            handle.reload()
            if handle.status not in _GOING:
                raise  # its labels alone may be outdated
        return record


@contextmanager
def worker_pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for work on several containers: one that is exchanged is away for a shorter time, and a Ctrl-C waits for
    the requests that the daemon has, of which it would make containers that nobody knows."""
    pool = ThreadPoolExecutor(_TOGETHER)
    try:
        yield pool
    finally:
        with defer_signals():
            pool.shutdown(cancel_futures=True)


class Converger(Struct):
    """Converges a stack to its desired containers. Until `commit`, `rollback` restores those from before."""

    client: DockerClient
    stack: str
    network: str
    progress: Callable[[Progress], None]
    alongside: Mapping[str, StackContainer] = field(
        default_factory=dict
    )  # name of a new container -> who serves on meanwhile
    tools: Collection[str] = ()  # ids of temporary containers with the stack's label
    changed: bool = False
    _new: dict[str, Container] = field(default_factory=dict)
    _aside: list[StackContainer] = field(default_factory=list)
    _cut: dict[str, float] = field(default_factory=dict)  # ports container -> when its predecessor began to stop

    def converge(self, wanted: Sequence[tuple[ContainerSpec, Record]]) -> None:
        """Keep containers that match, rename those that do not, create the rest. Raises EngineError LB404, LB421."""
        every = list_containers(self.client, self.stack)
        there = {x.name: x for x in every if x.handle.id not in self.tools and x.record.role is not Role.LOADER}
        gone, remade = exchanges(there, wanted)
        for each in gone:
            self._put_aside(each)
            if each not in self.alongside.values():
                self._stop(each)
        for _, _, now in remade.values():
            if now is not None:
                self._put_aside(now)
        # Shared namespaces come first. All containers are created before the first one to be replaced stops.
        steps = remade.values()
        groups = [[x for x in steps if bool(x[0].joins) + bool(x[0].inside) == shared] for shared in range(3)]
        for work in (self._make, self._exchange):
            for group in groups:
                with worker_pool() as pool:
                    for done in [pool.submit(work, step) for step in group]:
                        done.result()

    def _put_aside(self, each: StackContainer) -> None:
        """Rename it; it continues to run."""
        self.changed = True
        with docker_errors(f"renaming the container {each.name}"):
            if each.name.endswith(ASIDE):  # left by an `up` that was killed, or that docker left
                if each.running:  # clients may have kept connections to it
                    each.handle.stop(timeout=STOP_SECONDS)
                container.remove(each.handle)
                return
            self._aside.append(each)
            each.handle.rename(each.name + ASIDE)

    def _stop(self, each: StackContainer) -> None:
        """Stop it, also when it has ended: docker would restart it, and it would take its address back."""
        if not each.name.endswith(ASIDE):
            with docker_errors(f"stopping the container {each.name}"):
                each.handle.stop(timeout=STOP_SECONDS)

    def _make(self, step: Exchange) -> None:
        self.changed = True
        spec, record, _ = step
        self._new[spec.name] = container.create(self.client, spec, record, self.network)

    def _exchange(self, step: Exchange) -> None:
        spec, record, now = step
        detail = f"{record.title} {record.program_version or record.version}".strip()
        begun = self._cut.get(spec.joins, time.monotonic())
        moved = spec.joins in self._new
        if now is not None and spec.name not in self.alongside and not moved:
            self._stop(now)
        container.start(self._new[spec.name], spec)
        if record.role is Role.PORTS:
            self._cut[spec.name] = begun
            return
        if now is not None and now.running and record.role is Role.ENGINE and spec.name not in self.alongside:
            gap = (time.monotonic() - begun) * 1000
            detail += f"; the one before was asked to stop {gap:.0f} ms before: new connections were refused meanwhile"
        if now is not None and moved:  # its published ports are gone
            self._stop(now)
        self.progress(Progress(Step.STARTED, record.engine or str(record.role), detail))

    def commit(self) -> None:
        """Remove the containers that were replaced. Raises EngineError LB421 once all were tried."""
        found: list[Diagnostic] = []
        for each in self._aside:
            try:
                with docker_errors(f"removing the container {each.name}"):
                    try:
                        if each.running:  # one that could not be drained may have a request under way
                            each.handle.stop(timeout=STOP_SECONDS)
                    finally:
                        container.remove(each.handle)
            except EngineError as error:
                found += error.diagnostics
        self._aside.clear()
        self._new.clear()
        if found:
            raise EngineError(found)
        remove_leftovers(self.client, self.stack)

    def rollback(self) -> None:
        """Remove the new containers and restore those that were renamed; a Ctrl-C does not interrupt this."""
        networks = {f"container:{each.handle.id}" for each in self._aside if each.record.role is Role.PORTS}
        with defer_signals(forget=True):
            for handle in reversed(self._new.values()):
                with suppress(EngineError), docker_errors("removing a container"):
                    container.remove(handle)
            for each in sorted(self._aside, key=lambda x: -_ORDER.index(x.record.role)):
                with suppress(EngineError), docker_errors(f"bringing back the container {each.name}"):
                    each.handle.rename(each.name)
                with suppress(EngineError), docker_errors(f"starting the container {each.name} again"):
                    if each.running and str(each.handle.attrs["HostConfig"]["NetworkMode"]) in networks:
                        each.handle.restart(timeout=0)  # to join the restored network namespace
                    elif each.running or each.handle.status == _RESTARTING:
                        each.handle.start()  # no effect on one that was not stopped
            self._new.clear()
            self._aside.clear()
            with suppress(EngineError):
                remove_leftovers(self.client, self.stack)


def exchanges(
    there: Mapping[str, StackContainer], wanted: Sequence[tuple[ContainerSpec, Record]]
) -> tuple[list[StackContainer], dict[str, Exchange]]:
    """The containers `there`, by name, that `wanted` lacks, and those of `wanted` that have to be made."""
    names = {each.name for each, _ in wanted}
    remade: dict[str, Exchange] = {}
    for spec, record in wanted:
        now = there.get(spec.name)
        right = now is not None and now.running and now.record.hash == record.hash
        if not right or {spec.inside, spec.joins} & remade.keys() or _shares_orphaned(there, spec):
            remade[spec.name] = (spec, record, now)
    return [each for name, each in there.items() if name not in names], remade


def _shares_orphaned(there: Mapping[str, StackContainer], spec: ContainerSpec) -> bool:
    """Whether the running container of `spec` is orphaned of one whose namespace or volume it shares."""
    for shared, mode in ((spec.joins, "NetworkMode"), (spec.inside, "PidMode")):
        if shared not in there or spec.name not in there:
            continue
        if mode == "PidMode" and spec.own_processes:
            if _volumes(there[spec.name]) != _volumes(there[shared]):
                return True
        elif is_orphaned(there[spec.name], there[shared], mode):
            return True
    return False


def _volumes(each: StackContainer) -> set[str]:
    return {str(mount.get("Name")) for mount in each.handle.attrs["Mounts"]}


def is_orphaned(each: StackContainer, shared: StackContainer, mode: str = "NetworkMode") -> bool:
    """Whether `each` shares a namespace of an earlier container, or of an earlier start, than `shared`."""
    inner, outer = each.handle.attrs, shared.handle.attrs
    if inner["HostConfig"][mode] != f"container:{outer['Id']}":
        return True
    return bool(outer["State"]["StartedAt"] > inner["State"]["StartedAt"])


def remove_leftovers(client: DockerClient, stack: str) -> None:
    """Remove volumes of the stack that no container uses."""
    with docker_errors("listing volumes"):
        used = {
            mount["Name"]
            for each in _summaries(client, stack)
            for mount in each.get("Mounts") or ()
            if mount.get("Type") == "volume"
        }
        for volume in client.volumes.list(filters={"label": f"{STACK}={stack}"}):
            if volume.name not in used:
                volume.remove(force=True)


def remove_stack(client: DockerClient, stack: str, progress: Callable[[Progress], None]) -> None:
    """Stop and remove every container and volume of the stack; agents first, stand-ins last. After a Ctrl-C all are
    removed without time to drain."""
    every = sorted(list_containers(client, stack, labels_only=True), key=lambda x: _ORDER.index(x.record.role))
    try:
        for each in every:
            with docker_errors(f"stopping the container {each.name}"):
                if each.running and each.record.role is not Role.LOADER:  # that ends by itself
                    each.handle.stop(timeout=STOP_SECONDS)
            _remove(each, progress)
    except KeyboardInterrupt:
        with defer_signals(forget=True):
            end = time.monotonic() + STOP_SECONDS
            while (rest := list_containers(client, stack, labels_only=True)) and time.monotonic() < end:
                for each in rest:
                    with suppress(EngineError):  # docker may be removing it
                        _remove(each, progress)
                time.sleep(_AGAIN_SECONDS)
            remove_leftovers(client, stack)
        raise
    remove_leftovers(client, stack)


def _remove(each: StackContainer, progress: Callable[[Progress], None]) -> None:
    with docker_errors(f"removing the container {each.name}"):
        container.remove(each.handle)
    if each.record.role is Role.ENGINE:
        progress(Progress(Step.STOPPED, each.record.engine))


def forget_stack(client: DockerClient, name: str) -> None:
    """Remove the network and the saved state of a stack that has no container."""
    with docker_errors("listing containers"):
        has_container = any(Record.from_labels(each["Labels"]) for each in _summaries(client, name))
    if not has_container:
        network.remove(client, name)
        shutil.rmtree(labels.saved_folder(name), ignore_errors=True)
