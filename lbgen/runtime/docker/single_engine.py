"""Run one engine in a container of the kind that `up` creates, in a network namespace that this process can enter.

Clients and endpoints of this process share that namespace, and so all of 127.0.0.0/8, as with local processes. A kernel
engine, whose rules would apply to clients as well, has a namespace of its own behind a bridge. Needs root.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.agent.admin_client import fetch_json
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.engines.api import Engine
from lbgen.plan.model import Plan
from lbgen.plan.overlay import with_admin, with_version
from lbgen.runtime.common import ports
from lbgen.runtime.common.driver import START_SECONDS
from lbgen.runtime.common.issued_certificates import with_self_signed
from lbgen.runtime.common.processes import set_netns, wait_until
from lbgen.runtime.docker import container, desired, helper_image, images, network
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_engine import ensure_alive, wait_for_agent
from lbgen.runtime.docker.converge import StackContainer, remove_leftovers
from lbgen.runtime.docker.labels import Record, Role

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.images import Image

_ADMIN_PORT = 9901


class SharedNetns(Struct, frozen=True):
    """The network namespace that containers share with this process; `bridge` is this host's address on the bridge."""

    client: DockerClient
    helper: str
    name: str  # of the stack
    ports: tuple[ContainerSpec, Record]
    holder: Container
    bridge: str

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Move this thread, and those that it starts, into the namespace while the block lasts."""
        pid = int(self.holder.attrs["State"]["Pid"])
        with Path("/proc/self/ns/net").open("rb") as home, Path(f"/proc/{pid}/ns/net").open("rb") as there:
            set_netns(there.fileno())
            try:
                yield
            finally:
                set_netns(home.fileno())


@contextmanager
def share_netns() -> Iterator[SharedNetns]:
    """Raises EngineError LB407 without root, LB420 without a daemon, LB421."""
    if os.geteuid() != 0:
        message = "only root can enter the network of a container"
        raise EngineError(Diagnostic("LB407", message, hint="run as root, or on local processes"))
    client = connect()
    name = f"cases-{os.getpid()}-{secrets.token_hex(2)}"
    helper = images.ensure_helper(client, lambda text: None)
    hold = ContainerSpec(
        name=desired.container_name(name, "holder"),
        image=helper,
        argv=helper_image.WAIT_ARGV,
        files={},
        stop="SIGKILL",
        sysctls=(("net.ipv6.conf.all.disable_ipv6", "0"),),
        once=True,
    )
    record = Record(name, Role.CHECK, "")
    try:
        with container.temporary(client, hold, record) as handle:
            handle.reload()
            yield SharedNetns(client, helper, name, (hold, record), handle, str(network.ensure(client, name)[1]))
    finally:
        network.remove(client, name)
        remove_leftovers(client, name)


class SingleEngine(Struct, frozen=True):
    """One engine in a container, with the members of `local.process.EngineProcess` that clients use."""

    container: StackContainer
    plan: Plan
    host: str  # "" = the addresses of its listeners

    def address(self, listener: str) -> tuple[str, int]:
        """Host and port to connect to; KeyError when there is no such listener."""
        found = self.plan.listener(listener)
        return self.host or ports.client_address(found.address), found.port

    @property
    def pid(self) -> int:
        """The main process of its container, on this host."""
        return int(self.container.handle.attrs["State"]["Pid"])

    def ensure_alive(self) -> None:
        """Raise EngineError LB403 with its last lines when it has ended."""
        ensure_alive(self.container, 0, "while it served")

    def access_lines(self) -> list[str]:
        """The lines that it printed, with its access log."""
        with docker_errors(f"reading what {self.container.name} said"):
            return str(self.container.handle.logs().decode("utf-8", "replace")).splitlines()


@contextmanager
def serve(
    netns: SharedNetns, target: Engine, version: str, image: Image, plan: Plan, *, accept: tuple[str, ...]
) -> Iterator[SingleEngine]:
    """Serve `plan` on its own ports while the block lasts. This thread is in `netns`, except for a kernel engine.

    Raises LbgenError (verdicts), EngineError LB403, LB421.
    """
    chosen = desired.EngineChoice(target, version, image)
    plan = replace(with_version(with_self_signed(plan), target.name, version), name=netns.name)
    unit = desired.engine_unit(plan, chosen, plan, netns.helper, accept, netns.ports)
    if unit.spec.ready:
        plan = with_admin(plan, _ADMIN_PORT)
        unit = desired.engine_unit(plan, chosen, plan, netns.helper, accept, netns.ports)
    spec = replace(unit.container_spec, joins=str(netns.holder.name), once=True)
    if unit.spec.kernel:
        spec = replace(spec, joins="", sysctls=(*desired.SYSCTLS, *unit.spec.sysctls))
    record = replace(unit.record, role=Role.CHECK)
    with ExitStack() as running:
        handle = running.enter_context(container.temporary(netns.client, spec, record, network.name(netns.name)))
        if unit.agent is not None:
            agent = replace(unit.agent[0], joins="", once=True)
            beside = container.temporary(netns.client, agent, replace(unit.agent[1], role=Role.CHECK))
            wait_for_agent(running.enter_context(beside), START_SECONDS)
        handle.reload()
        networks = handle.attrs["NetworkSettings"]["Networks"]
        host = str(networks[network.name(netns.name)]["IPAddress"]) if unit.spec.kernel else ""
        engine = SingleEngine(StackContainer(handle, record), plan, host)
        if unit.spec.kernel:
            _wait_loaded(engine)
        else:
            _wait_listening(engine, unit.spec.ready)
        yield engine


def _wait_loaded(engine: SingleEngine) -> None:
    """Wait until the rules are in the kernel: the shell that loads them then executes `sleep`."""
    name = Path(f"/proc/{engine.container.handle.attrs['State']['Pid']}/comm")

    def loaded() -> bool:
        ensure_alive(engine.container, 0, "while starting")
        return name.read_text().strip() == "sleep"

    _wait(loaded, f"{engine.container.record.title} did not load its rules")


def _wait_listening(engine: SingleEngine, ready: str) -> None:
    """Wait until it accepts connections and, where it has a readiness path, is ready."""

    def listens() -> bool:
        ensure_alive(engine.container, 0, "while starting")
        waiting = [x for x in engine.plan.listeners if str(x.protocol) == "tcp"]
        accepts = all(ports.accepts(x.address, x.port) for x in waiting)
        return accepts and (not ready or fetch_json(_ADMIN_PORT, (ready,)) is not None)

    _wait(listens, f"{engine.container.record.title} does not accept on every listener")


def _wait(holds: Callable[[], bool], otherwise: str) -> None:
    if not wait_until(holds, START_SECONDS):
        raise EngineError(Diagnostic("LB403", otherwise))


def available_images(netns: SharedNetns, target: Engine, fetched: Collection[str]) -> dict[str, Image]:
    """The image of each version that has one; those of `fetched` are pulled or built if they are missing."""
    every: dict[str, Image] = {}
    for row in images.list_images(netns.client, (target,)):
        if row.present or row.version in fetched:
            with suppress(LbgenError):
                every[row.version] = images.choose(netns.client, target, row.version, lambda step: None)
    return every
