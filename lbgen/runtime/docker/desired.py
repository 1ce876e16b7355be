"""The desired containers of a stack, from its plan and the chosen engines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.api import Binary, Engine, ProcessSpec
from lbgen.engines.health import Watched
from lbgen.engines.rendered import Rendered, render_with
from lbgen.plan.model import ContainerLimits, Listener, Plan
from lbgen.plan.overlay import with_admin, with_challenge_port, with_device, with_metrics, with_ports, with_version
from lbgen.runtime.common.ports import client_address, metrics_url
from lbgen.runtime.common.state import Address, scheme
from lbgen.runtime.docker import endpoint_rules, helper_image, network
from lbgen.runtime.docker.client import socket_path
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_files import File, rendered_files
from lbgen.runtime.docker.endpoint_rules import EndpointSide, HostRules
from lbgen.runtime.docker.helper_image import WORK
from lbgen.runtime.docker.labels import Record, Role, SavedPlan
from lbgen.runtime.standins.plan import StandInSet, plan_stand_ins, stand_in_pools
from lbgen.runtime.standins.stand_in import encode_list

if TYPE_CHECKING:
    from lbgen.runtime.docker.images import Image


NEXT_SIGNAL, COMMIT_SIGNAL = "SIGHUP", "SIGUSR1"  # start the next process; the last one serves and stays
_EPOCH = "{epoch}"
# When a process ends before it has taken over, the one before continues to serve. Any other end ends the container,
# which docker restarts.
_HOT_RESTART = """\
epoch=0 all= last= sure=
next() { %s & last=$!; all="$all $last"; epoch=$((epoch + 1)); }
trap next HUP
trap 'sure=$last' USR1
trap 'sure=ending; kill -TERM $all 2>/dev/null' TERM
next
while :; do
  wait "$last"; code=$?
  kill -0 "$last" 2>/dev/null && continue
  left= former=
  for pid in $all; do kill -0 "$pid" 2>/dev/null && left="$left $pid" && former=$pid; done
  [ -n "$left" ] || exit "$code"
  if [ "$sure" = "$last" ]; then kill -KILL $left 2>/dev/null; exit "$code"; fi
  all=$left last=$former epoch=$((epoch - 1))
done
"""


def hot_restart_script(argv: Sequence[str]) -> str:
    """A shell script that runs `argv` once per epoch, with the epoch's number in place of "{epoch}"."""
    return _HOT_RESTART % " ".join('"$epoch"' if word == _EPOCH else shlex.quote(word) for word in argv)


ENDPOINTS_FILE = "endpoints.json"
FOLDER = Path(WORK)
ADMIN_PORT = 9901  # on the container's loopback, never published
_LOCAL = "127.0.0.1"
_STORE = "/var/lib/lbgen"  # where the agent keeps certificates
_EVERY = "0.0.0.0"  # noqa: S104  # inside a container
RESOLVER = "127.0.0.11"  # docker's DNS server, which resolves container names
# A kernel engine forwards packets; a traffic switch sends connections to a loopback address.
SYSCTLS = (("net.ipv4.ip_forward", "1"), ("net.ipv4.conf.all.route_localnet", "1"))
_DEVICE = "eth0"  # docker's name for the interface to a container's only network
_HOLDER = ContainerLimits(memory=64 << 20, pids=32)


class EngineChoice(Struct, frozen=True):
    """An engine of the stack with its image. `offset` is added to every listener's port; `side` as in
    `network.engine_address`."""

    engine: Engine
    version: str
    image: Image
    offset: int = 0
    side: int = 0


class EngineUnit(Struct, frozen=True):
    """The containers of one engine. `plan` is what it serves inside, `spec` how its program runs on `rendered`.
    `holder` has its network namespace and published ports; `agent` runs its agent, if it needs one."""

    choice: EngineChoice
    plan: Plan
    binary: Binary
    spec: ProcessSpec
    rendered: Rendered
    container_spec: ContainerSpec
    record: Record
    holder: tuple[ContainerSpec, Record]
    agent: tuple[ContainerSpec, Record] | None = None

    @property
    def containers(self) -> tuple[tuple[ContainerSpec, Record], ...]:
        return (self.holder, (self.container_spec, self.record), *((self.agent,) if self.agent is not None else ()))


class DesiredStack(Struct, frozen=True):
    """All desired containers of a stack. `kept` is what the next change needs, `last` what the last one saved."""

    kept: SavedPlan
    units: tuple[EngineUnit, ...]
    endpoints: tuple[ContainerSpec, Record] | None
    helper: str
    subnet: IPv4Network
    last: SavedPlan | None

    @property
    def containers(self) -> tuple[tuple[ContainerSpec, Record], ...]:
        first = () if self.endpoints is None else (self.endpoints,)
        own = [each for unit in self.units for each in unit.containers]
        side = self.endpoint_side
        return (*first, *own) if side is None else (*first, *own, _watcher(side, self.helper))

    @property
    def endpoint_side(self) -> EndpointSide | None:
        """The rules that engines need at the endpoints; None when they need none."""
        rules = tuple(
            HostRules(
                x.host,
                unit.choice.image.reference,
                x.file,
                unit.rendered[x.file],
                x.setup,
                x.teardown,
            )
            for unit in self.units
            for x in unit.spec.endpoint_rules
        )
        return EndpointSide(self.kept.plan.name, rules) if rules else None


def _watcher(side: EndpointSide, helper: str) -> tuple[ContainerSpec, Record]:
    """The container that loads the rules of `side` again when an endpoint's container starts."""
    spec = ContainerSpec(
        name=container_name(side.stack, Role.ENDPOINT_RULES),
        image=helper,
        argv=endpoint_rules.ARGV,
        files={endpoint_rules.FILE: side.as_file()},
        env=helper_image.ENVIRONMENT,
        docker_socket=socket_path(),
    )
    return spec, Record(side.stack, Role.ENDPOINT_RULES, spec.digest(), spec.shape())


def container_name(stack: str, unit: str) -> str:
    """The name of a container of a stack."""
    return f"lbgen-{stack}-{unit}"


def assign_stand_ins(plan: Plan, subnet: IPv4Network, folder: Path, before: StandInSet | None) -> StandInSet:
    """The stand-ins of the plan's endpoints, all at one address, after those of `before`, which stay. Certificates are
    kept in `folder`, so that another `up` changes nothing."""
    hosts = (network.stand_in_address(subnet),)
    assigned = plan_stand_ins(plan, hosts, frozenset(), folder, lambda host, first, taken: first, before)
    there = () if before is None else before.stand_ins
    return replace(assigned, stand_ins=tuple(dict.fromkeys((*there, *assigned.stand_ins))))


def stand_in_container(
    plan: Plan, stand_in_set: StandInSet, helper: str, subnet: IPv4Network
) -> tuple[ContainerSpec, Record]:
    """The container of all stand-ins, each on a port of its own."""
    files: dict[str, File] = {}
    inside_specs = []
    for each in stand_in_set.stand_ins:
        if each.tls is not None:
            pair = (Path(each.tls.certificate), Path(each.tls.key))
            certificate, key = (f"{path.parent.name}/{path.name}" for path in pair)
            inside = replace(each.tls, certificate=certificate, key=key)
            files[inside.certificate] = File(Path(each.tls.certificate).read_bytes())
            files[inside.key] = File(Path(each.tls.key).read_bytes(), secret=True)
            each = replace(each, tls=inside)
        inside_specs.append(each)
    files[ENDPOINTS_FILE] = File(encode_list(inside_specs))
    spec = ContainerSpec(
        name=container_name(plan.name, Role.ENDPOINTS),
        image=helper,
        argv=(helper_image.PYTHON, "-m", "lbgen.runtime.standins.server", ENDPOINTS_FILE),
        files=files,
        env=helper_image.ENVIRONMENT,
        address=network.stand_in_address(subnet),
        aliases=("endpoints",),
        stop="SIGINT",
    )
    there = (x for x in inside_specs if not x.datagrams)  # those have the port of another
    listed = [{"name": x.name, "pool": x.pool, "host": x.host, "port": x.port} for x in there]
    return spec, Record(plan.name, Role.ENDPOINTS, spec.digest(), spec.shape(), detail=json.dumps(listed))


def desired_stack(
    plan: Plan,
    chosen: Sequence[EngineChoice],
    accept: tuple[str, ...],
    backends: bool,
    where: tuple[str, IPv4Network, Path],
    last: SavedPlan | None,
) -> DesiredStack:
    """The stack that serves `plan`. `where`: the helper image, the subnet of the network, the folder of the stand-ins'
    certificates, where missing ones are made; `last`: what the last change saved.

    Raises LbgenError (verdicts), OSError (a file of the topology cannot be read).
    """
    helper, subnet, folder = where
    before = last.stand_in_set if last is not None and last.stand_in_set.stand_ins else None
    stand_in_set = assign_stand_ins(plan, subnet, folder, before) if stand_in_pools(plan) else StandInSet()
    units = []
    for each in chosen:
        inside = plan_inside(plan, each, stand_in_set, subnet)
        ports = ports_container(plan, each, helper, subnet)
        unit = engine_unit(plan, each, inside, helper, accept, ports)
        if unit.spec.endpoint_rules:  # the endpoints are on the stack's own network
            ports = ports_container(replace(plan, networks=()), each, helper, subnet)
            unit = replace(unit, holder=ports)
        units.append(unit)
    endpoints = stand_in_container(plan, stand_in_set, helper, subnet) if stand_in_set.stand_ins else None
    return DesiredStack(SavedPlan(plan, stand_in_set, accept, backends), tuple(units), endpoints, helper, subnet, last)


def plan_inside(plan: Plan, chosen: EngineChoice, stand_in_set: StandInSet, subnet: IPv4Network) -> Plan:
    """The plan that the engine serves inside its container: offset ports, its own address, stand-ins as endpoints."""
    plan = replace(plan, resolvers=plan.resolvers or (RESOLVER,))
    plan = with_ports(plan, {x.name: x.port + chosen.offset for x in plan.listeners})
    plan = stand_in_set.apply_to(plan, network.stand_in_address(subnet))
    plan = with_version(plan, chosen.engine.name, chosen.version)
    spec = _process(plan, chosen)
    # Never all addresses: an engine that replaces this one needs a free address. What endpoints answer from is one.
    side = 0 if spec.endpoint_rules else chosen.side
    every = spec.kernel and not spec.endpoint_rules
    address = _EVERY if every else network.engine_address(subnet, chosen.offset, side)
    plan = with_device(plan, _DEVICE)
    plan = replace(plan, listeners=tuple(replace(x, address=address) for x in plan.listeners))
    plan = with_challenge_port(plan, offset=chosen.offset)
    plan = with_metrics(plan, offset=chosen.offset, address=_EVERY)  # an agent waits until the one before has ended
    if isinstance(chosen.engine, Watched) or spec.ready:
        plan = with_admin(plan, ADMIN_PORT + chosen.side)
    return plan


def _process(plan: Plan, chosen: EngineChoice) -> ProcessSpec:
    binary = Binary(Path(chosen.image.program), chosen.image.version or chosen.version)
    return chosen.engine.process(plan, binary, FOLDER)


def ports_container(plan: Plan, chosen: EngineChoice, helper: str, subnet: IPv4Network) -> tuple[ContainerSpec, Record]:
    """The container that holds an engine's network namespace and published ports while its engine is replaced."""
    published = [(published_address(x), x.port + chosen.offset, str(x.protocol)) for x in plan.listeners]
    if plan.metrics is not None:
        published.append((plan.metrics.address, plan.metrics.port + chosen.offset, "tcp"))
    spec = ContainerSpec(
        name=container_name(plan.name, f"{Role.PORTS}-{chosen.offset}" if chosen.offset else Role.PORTS),
        image=helper,
        argv=helper_image.WAIT_ARGV,
        files={},
        stop="SIGKILL",  # it only sleeps
        address=network.engine_address(subnet, chosen.offset, 0),
        published=tuple(published),
        networks=plan.networks,
        sysctls=(*SYSCTLS, *_process(plan, chosen).sysctls),
        limits=_HOLDER,
    )
    same = replace(spec, image="").digest()  # a newer helper image needs no new container
    return spec, Record(plan.name, Role.PORTS, same, offset=chosen.offset, side=chosen.side)


def engine_unit(
    plan: Plan,
    chosen: EngineChoice,
    inside: Plan,
    helper: str,
    accept: tuple[str, ...],
    ports: tuple[ContainerSpec, Record],
) -> EngineUnit:
    """The engine that serves `inside` in the network namespace of `ports`, and its agent where it needs one.

    Raises LbgenError (verdicts), OSError (a file of the topology cannot be read).
    """
    engine, image = chosen.engine, chosen.image
    binary = Binary(Path(image.program), image.version or chosen.version, tuple(Path(x) for x in image.modules))
    spec = engine.process(inside, binary, FOLDER)
    rendered = render_with(engine, inside, chosen.version, accept)
    name = container_name(plan.name, engine.name)
    container_spec = ContainerSpec(
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
        container_spec = replace(
            container_spec,
            argv=("/bin/sh", "-c", f"{load} && exec {shlex.join(spec.argv) or 'sleep infinity'}"),
            stop=spec.stop.name if spec.argv else "SIGKILL",  # it only sleeps
            capabilities=("NET_ADMIN",),
        )
    elif spec.hot_restart_argv:
        container_spec = replace(container_spec, argv=("/bin/sh", "-c", hot_restart_script(spec.hot_restart_argv)))
    addresses = tuple(
        Address(x.name, str(x.mode), client_address(published_address(x)), x.port + chosen.offset, scheme(x))
        for x in plan.listeners
    )
    record = Record(
        plan.name,
        Role.ENGINE,
        container_spec.digest(),
        container_spec.shape(),
        engine.name,
        engine.title,
        chosen.version,
        image.version or "",
        chosen.offset,
        chosen.side,
        addresses,
        spec.access_log,
        json.dumps({"drain": _drain(spec), "leave": spec.drain_file, "setup": spec.setup, "teardown": spec.teardown}),
        files=container_spec.file_digests(),
        metrics=metrics_url(with_metrics(plan, offset=chosen.offset).metrics),
    )
    agent = None
    if spec.agent:
        agent_spec = ContainerSpec(
            name=container_name(plan.name, f"{engine.name}-{Role.AGENT}"),
            image=helper,
            argv=(helper_image.PYTHON, "-m", "lbgen", "agent", WORK),
            files={},
            env=helper_image.ENVIRONMENT,
            inside=name,
            joins=ports[0].name,
            # To load rules, and to write into the folder, which is not root's.
            capabilities=("NET_ADMIN", "DAC_OVERRIDE") if spec.kernel else (),
            own_processes=spec.kernel,
            limits=plan.containers,
        )
        if plan.acme is not None and plan.acme.store is not None:
            binds = [(plan.acme.store, _STORE, "rw")]
            if plan.acme.webroot is not None:
                binds.append((plan.acme.webroot, plan.acme.webroot, "ro"))
            agent_spec = replace(agent_spec, env=(*agent_spec.env, ("STATE_DIRECTORY", _STORE)), binds=tuple(binds))
        agent = (agent_spec, Record(plan.name, Role.AGENT, agent_spec.digest(), engine=engine.name))
    return EngineUnit(chosen, inside, binary, spec, rendered, container_spec, record, ports, agent)


def _drain(spec: ProcessSpec) -> str:
    """The signal that starts its drain; "" for an engine that drains by a file."""
    return "" if spec.drain_file is not None else NEXT_SIGNAL if spec.hot_restart_argv else spec.stop.name


def _log(name: str) -> dict[str, File]:
    """A link that sends an engine's own log file to docker's log."""
    return {name: File(link="/dev/stdout")} if name else {}


def published_address(listener: Listener) -> str:
    """The host address to publish a listener on: the topology's, or loopback when it names none."""
    return listener.address if listener.address_written else _LOCAL
