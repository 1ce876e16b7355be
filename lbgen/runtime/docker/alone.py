"""A plan and an engine -> that engine serving it in a container as `up` would make it, in a network that we can be in.

The container is that of a stack in all but its network: clients and endpoints of this process share that, with all of
127.0.0.0/8, so that what works on local processes works on containers. A kernel engine, whose rules would be ours as
well, has a network of its own, a bridge away. Needs root.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.plan.overlay import with_admin, with_version
from lbgen.runtime.common import ports
from lbgen.runtime.common.admin_client import answers
from lbgen.runtime.common.driver import START_SECONDS
from lbgen.runtime.docker import container, images, network, own, wanted
from lbgen.runtime.docker.client import connect, told
from lbgen.runtime.docker.container import Wanted
from lbgen.runtime.docker.converge import Found, sweep
from lbgen.runtime.docker.labels import Record, Role
from lbgen.runtime.docker.live import agent_works, stays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.runtime.docker.images import Image

_CLONE_NEWNET = 0x40000000
_ADMIN_PORT = 9901


@dataclass(frozen=True, slots=True)
class Room:
    """The network that containers share with this process. `bridge` is this host's address in the other one."""

    client: DockerClient
    helper: str
    name: str  # of everything that is ours
    ports: tuple[Wanted, Record]
    holder: Container
    bridge: str

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and those that it starts, are in there for as long as the block lasts."""
        pid = int(self.holder.attrs["State"]["Pid"])
        with Path("/proc/self/ns/net").open("rb") as home, Path(f"/proc/{pid}/ns/net").open("rb") as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())


@contextmanager
def room() -> Iterator[Room]:
    """Raises EngineError LB407 without root, LB420 without a daemon, LB421."""
    if os.geteuid() != 0:
        message = "only root can enter the network of a container"
        raise EngineError(Diagnostic("LB407", message, hint="run as root, or on local processes"))
    client = connect()
    name = f"cases-{os.getpid()}-{secrets.token_hex(2)}"
    helper = images.helper(client, lambda text: None)
    hold = Wanted(
        name=wanted.container_name(name, "room"),
        image=helper,
        argv=own.WAIT,
        files={},
        stop="SIGKILL",
        sysctls=(("net.ipv6.conf.all.disable_ipv6", "0"),),
        once=True,
    )
    record = Record(name, Role.CHECK, "")
    made = container.create(client, hold, record, "")
    try:
        container.start(made, hold)
        made.reload()
        yield Room(client, helper, name, (hold, record), made, str(network.ensure(client, name)[1]))
    finally:
        container.remove(made)
        network.remove(client, name)
        sweep(client, name)


@dataclass(frozen=True, slots=True)
class Alone:
    """One engine in a container. See `lbgen.runtime.local.process.Handle`, of which it is the part that clients use."""

    made: Found
    plan: Plan
    host: str  # "" = where its listeners are, on our side too

    def address(self, listener: str) -> tuple[str, int]:
        """Host and port to connect to; KeyError when there is no such listener."""
        found = self.plan.listener(listener)
        return self.host or ports.client_address(found.address), found.port

    def stays(self) -> None:
        """EngineError LB403 with its last lines when it has ended."""
        stays(self.made, 0, "while it served")

    def access_lines(self) -> list[str]:
        """What it printed, its access log among it."""
        with told(f"reading what {self.made.name} said"):
            return str(self.made.made.logs().decode("utf-8", "replace")).splitlines()


@contextmanager
def serving(
    place: Room, target: Engine, version: str, image: Image, plan: Plan, *, accept: tuple[str, ...]
) -> Iterator[Alone]:
    """Serve `plan` on its own ports while the block lasts; this thread is in the room, but for a kernel engine.

    Raises LbgenError (verdicts), EngineError LB403, LB421.
    """
    chosen = wanted.Chosen(target, version, image)
    plan = replace(with_version(plan, target.name, version), name=place.name)
    part = wanted.engine_part(plan, chosen, plan, place.helper, accept, place.ports)
    if part.spec.ready:
        plan = with_admin(plan, _ADMIN_PORT)
        part = wanted.engine_part(plan, chosen, plan, place.helper, accept, place.ports)
    spec = replace(part.wanted, joins=str(place.holder.name), once=True)
    if part.spec.kernel:
        spec = replace(spec, joins="", sysctls=wanted.SYSCTLS)
    made: list[Container] = []
    record = replace(part.record, role=Role.CHECK)
    try:
        made.append(container.create(place.client, spec, record, network.name(place.name)))
        container.start(made[0], spec)
        if part.agent is not None:
            beside = replace(part.agent[0], joins="", once=True)
            made.append(container.create(place.client, beside, replace(part.agent[1], role=Role.CHECK), ""))
            container.start(made[1], beside)
            agent_works(made[1], START_SECONDS)
        made[0].reload()
        networks = made[0].attrs["NetworkSettings"]["Networks"]
        host = str(networks[network.name(place.name)]["IPAddress"]) if part.spec.kernel else ""
        alone = Alone(Found(made[0], record), plan, host)
        if part.spec.kernel:
            _wait_loaded(alone)
        else:
            _wait_listening(alone, part.spec.ready)
        yield alone
    finally:
        for each in reversed(made):
            with told(f"removing {each.name}"):
                container.remove(each)


def _wait_loaded(alone: Alone) -> None:
    """Until the rules are in the kernel: the shell that loads them becomes one that sleeps."""
    name = Path(f"/proc/{alone.made.made.attrs['State']['Pid']}/comm")

    def loaded() -> bool:
        stays(alone.made, 0, "while starting")
        return name.read_text().strip() == "sleep"

    _until(loaded, f"{alone.made.record.title} did not load its rules")


def _wait_listening(alone: Alone, ready: str) -> None:
    """Until it accepts and, where it tells that at all, knows its routes."""

    def listens() -> bool:
        stays(alone.made, 0, "while starting")
        waiting = [x for x in alone.plan.listeners if str(x.protocol) == "tcp"]
        accepts = all(ports.accepts(x.address, x.port) for x in waiting)
        return accepts and (not ready or answers(_ADMIN_PORT, (ready,)) is not None)

    _until(listens, f"{alone.made.record.title} does not accept on every listener")


def _until(holds: Callable[[], bool], otherwise: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise EngineError(Diagnostic("LB403", otherwise))
        time.sleep(0.02)


def found_images(place: Room, target: Engine) -> dict[str, Image]:
    """The image of each version, without those for which there is none."""
    every: dict[str, Image] = {}
    for version in target.versions:
        try:
            every[version] = images.choose(place.client, target, version, lambda step: None)
        except LbgenError:
            continue
    return every


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        why = os.strerror(ctypes.get_errno())
        raise EngineError(Diagnostic("LB407", f"the network of a container cannot be entered: {why}"))
