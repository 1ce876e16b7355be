"""A plan and chosen engines -> the containers that there should be."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.engines.api import Binary
from lbgen.engines.health import Watched
from lbgen.engines.rendered import render_with
from lbgen.plan.model import ContainerLimits
from lbgen.plan.overlay import with_admin, with_ports, with_version
from lbgen.runtime.common.ports import client_address
from lbgen.runtime.common.state import Address, scheme
from lbgen.runtime.docker import network, own, successive
from lbgen.runtime.docker.bundle import WORK
from lbgen.runtime.docker.container import File, Wanted, rendered_files
from lbgen.runtime.docker.labels import Record, Role
from lbgen.runtime.standins.plan import Cast, cast

if TYPE_CHECKING:
    from ipaddress import IPv4Network

    from lbgen.engines.api import Engine, ProcessSpec
    from lbgen.engines.rendered import Rendered
    from lbgen.plan.model import Listener, Plan
    from lbgen.runtime.docker.images import Image
    from lbgen.runtime.docker.kept import Kept

ENDPOINTS_FILE = "endpoints.json"
FOLDER = Path(WORK)
ADMIN_PORT = 9901  # on the container's own loopback, never published
_LOCAL = "127.0.0.1"
_EVERY = "0.0.0.0"  # noqa: S104  # inside a container
RESOLVER = "127.0.0.11"  # docker's own, which knows containers by name
# A kernel engine forwards, and connections can be turned to an address of loopback.
SYSCTLS = (("net.ipv4.ip_forward", "1"), ("net.ipv4.conf.all.route_localnet", "1"))
_HOLDER = ContainerLimits(memory=64 << 20, pids=32)


@dataclass(frozen=True, slots=True)
class Chosen:
    """An engine of the stack with its image. `offset` is added to every listener's port; `side`: see `network.side`."""

    engine: Engine
    version: str
    image: Image
    offset: int = 0
    side: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """An engine's container: `plan` is what it serves inside, `spec` how its program is run on `rendered`. `ports` is
    the container that has its network and published ports, `agent` the one beside it, where it needs one."""

    chosen: Chosen
    plan: Plan
    binary: Binary
    spec: ProcessSpec
    rendered: Rendered
    wanted: Wanted
    record: Record
    ports: tuple[Wanted, Record]
    agent: tuple[Wanted, Record] | None = None

    @property
    def containers(self) -> tuple[tuple[Wanted, Record], ...]:
        return (self.ports, (self.wanted, self.record), *((self.agent,) if self.agent is not None else ()))


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a stack shall be. `kept` is what the next change needs, `last` what the last one kept."""

    kept: Kept
    parts: tuple[Part, ...]
    endpoints: tuple[Wanted, Record] | None
    helper: str
    subnet: IPv4Network
    last: Kept | None

    @property
    def containers(self) -> tuple[tuple[Wanted, Record], ...]:
        first = () if self.endpoints is None else (self.endpoints,)
        return (*first, *(each for part in self.parts for each in part.containers))


def container_name(stack: str, part: str) -> str:
    """What docker calls a part of a stack."""
    return f"lbgen-{stack}-{part}"


def stand_ins(plan: Plan, subnet: IPv4Network, folder: Path, before: Cast | None) -> Cast:
    """Who plays the endpoints, all at one address, those of `before` among them, as they stay; certificates are kept in
    `folder`, so that `up` again changes nothing."""
    hosts = (network.stand_ins(subnet),)
    made = cast(plan, hosts, frozenset(), folder, lambda host, first, taken: first, before)
    there = () if before is None else before.stand_ins
    return replace(made, stand_ins=(*there, *(each for each in made.stand_ins if each not in there)))


def endpoints_container(plan: Plan, cast: Cast, helper: str, subnet: IPv4Network) -> tuple[Wanted, Record]:
    """All stand-ins in one container, each on a port of its own."""
    files: dict[str, File] = {}
    played = []
    for each in cast.stand_ins:
        if each.tls is not None:
            pair = (Path(each.tls.certificate), Path(each.tls.key))
            certificate, key = (f"{path.parent.name}/{path.name}" for path in pair)
            inside = replace(each.tls, certificate=certificate, key=key)
            files[inside.certificate] = File(Path(each.tls.certificate).read_bytes())
            files[inside.key] = File(Path(each.tls.key).read_bytes(), secret=True)
            each = replace(each, tls=inside)
        played.append(each)
    files[ENDPOINTS_FILE] = File(json.dumps([each.as_dict() for each in played], indent=1).encode())
    wanted = Wanted(
        name=container_name(plan.name, Role.ENDPOINTS),
        image=helper,
        argv=(own.PYTHON, "-m", "lbgen.runtime.standins.server", ENDPOINTS_FILE),
        files=files,
        env=own.ENVIRONMENT,
        address=network.stand_ins(subnet),
        aliases=("endpoints",),
        stop="SIGINT",
    )
    listed = [{"name": x.name, "pool": x.pool, "host": x.host, "port": x.port} for x in played]
    return wanted, Record(plan.name, Role.ENDPOINTS, wanted.digest(), wanted.shape(), detail=json.dumps(listed))


def plan_for(plan: Plan, chosen: Chosen, cast: Cast, subnet: IPv4Network) -> Plan:
    """What the engine serves inside its container: moved ports, all addresses, stand-ins in place of endpoints."""
    plan = replace(plan, resolvers=plan.resolvers or (RESOLVER,))
    plan = with_ports(plan, {x.name: x.port + chosen.offset for x in plan.listeners})
    plan = cast.play(plan, network.stand_ins(subnet))
    plan = with_version(plan, chosen.engine.name, chosen.version)
    binary = Binary(Path(chosen.image.program), chosen.image.version or chosen.version)
    spec = chosen.engine.process(plan, binary, FOLDER)
    # Never all addresses, as the next engine has to have one that is free.
    address = _EVERY if spec.kernel else network.side(subnet, chosen.offset, chosen.side)
    plan = replace(plan, listeners=tuple(replace(x, address=address) for x in plan.listeners))
    if isinstance(chosen.engine, Watched) or spec.ready:
        plan = with_admin(plan, ADMIN_PORT + chosen.side)
    return plan


def holder(plan: Plan, chosen: Chosen, helper: str, subnet: IPv4Network) -> tuple[Wanted, Record]:
    """Who has the network of an engine, which may become another container, or another engine."""
    made = Wanted(
        name=container_name(plan.name, f"{Role.PORTS}-{chosen.offset}" if chosen.offset else Role.PORTS),
        image=helper,
        argv=own.WAIT,
        files={},
        stop="SIGKILL",  # nothing runs that could end gracefully
        address=network.side(subnet, chosen.offset, 0),
        published=tuple((outside(x), x.port + chosen.offset, str(x.protocol)) for x in plan.listeners),
        networks=plan.networks,
        sysctls=SYSCTLS,
        limits=_HOLDER,
    )
    same = replace(made, image="").digest()  # another lbgen would do no better
    return made, Record(plan.name, Role.PORTS, same, offset=chosen.offset, side=chosen.side)


def engine_part(
    plan: Plan, chosen: Chosen, inside: Plan, helper: str, accept: tuple[str, ...], ports: tuple[Wanted, Record]
) -> Part:
    """The engine that serves `inside` in the network of `ports`, and the agent beside it where it needs one.

    Raises LbgenError (verdicts), OSError (a file of the topology cannot be read).
    """
    engine, image = chosen.engine, chosen.image
    binary = Binary(Path(image.program), image.version or chosen.version, tuple(Path(x) for x in image.modules))
    spec = engine.process(inside, binary, FOLDER)
    rendered = render_with(engine, inside, chosen.version, accept)
    name = container_name(plan.name, engine.name)
    wanted = Wanted(
        name=name,
        image=image.reference,
        argv=spec.argv,
        files=rendered_files(rendered) | _log(spec.access_log),
        env=spec.env,
        stop=spec.stop.name,
        joins=ports[0].name,
        limits=plan.containers,
    )
    if spec.kernel:
        load = " && ".join(shlex.join(command) for command in spec.setup)
        wanted = replace(
            wanted,
            argv=("/bin/sh", "-c", f"{load} && exec sleep infinity"),
            stop="SIGKILL",  # nothing runs that could end gracefully
            capabilities=("NET_ADMIN",),
        )
    elif spec.successive:
        wanted = replace(wanted, argv=("/bin/sh", "-c", successive.script(spec.successive)))
    addresses = tuple(
        Address(x.name, str(x.mode), client_address(outside(x)), x.port + chosen.offset, scheme(x))
        for x in plan.listeners
    )
    record = Record(
        plan.name,
        Role.ENGINE,
        wanted.digest(),
        wanted.shape(),
        engine.name,
        engine.title,
        chosen.version,
        image.version or "",
        chosen.offset,
        chosen.side,
        addresses,
        spec.access_log,
        json.dumps({"drain": _drain(spec), "leave": spec.leave, "teardown": spec.teardown}),
        files=wanted.digests(),
    )
    agent = None
    if spec.agent:
        beside = Wanted(
            name=container_name(plan.name, f"{engine.name}-{Role.AGENT}"),
            image=helper,
            argv=(own.PYTHON, "-m", "lbgen", "agent", WORK),
            files={},
            env=own.ENVIRONMENT,
            inside=name,
            joins=ports[0].name,
            limits=plan.containers,
        )
        agent = (beside, Record(plan.name, Role.AGENT, beside.digest(), engine=engine.name))
    return Part(chosen, inside, binary, spec, rendered, wanted, record, ports, agent)


def _drain(spec: ProcessSpec) -> str:
    """The signal after which it ends its connections; one that leaves by a file gets none."""
    return "" if spec.leave is not None else successive.NEXT if spec.successive else spec.stop.name


def _log(name: str) -> dict[str, File]:
    """Where an engine writes a log of its own, docker shall keep it with the rest."""
    return {name: File(link="/dev/stdout")} if name else {}


def outside(listener: Listener) -> str:
    """Only this host is served where the topology names no address; all addresses are published when it says so."""
    return listener.address if listener.address_written else _LOCAL
