"""Start what is measured: engines with a plan each, all before one endpoint, on free ports of 127.0.0.1."""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from signal import SIGTERM
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from lbgen.bench import endpoint as endpoint_program
from lbgen.bench.constant_rate import trusting_context
from lbgen.bench.gate import endpoint_rules
from lbgen.bench.report import DIRECT
from lbgen.conformance.free_ports import FreePorts
from lbgen.conformance.verify.addresses import LOOPBACK, move_to_loopback
from lbgen.conformance.verify.jobs import Job
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError
from lbgen.plan.model import Metrics, Plan
from lbgen.plan.overlay import with_endpoints, with_workers
from lbgen.runtime.common.ports import accepts
from lbgen.runtime.common.processes import group_members
from lbgen.runtime.local.engine_process import EngineProcess
from lbgen.runtime.local.messages import EngineChoice
from lbgen.runtime.local.network import Network, free_pair, network
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.local.spawn import User, spawn, stop

if TYPE_CHECKING:
    from lbgen.bench.target import LoadTarget

BODY_BYTES = 5120
Delay = float | tuple[float, float]
_START_SECONDS = 60.0
_OK = 200
_EVERY_ADDRESS = "0.0.0.0"  # noqa: S104  # inside a namespace that only this host reaches


class Unit(Struct, frozen=True):
    """What to start: an engine with a plan, `name` in the report, and the request that it is loaded with."""

    name: str
    choice: EngineChoice
    plan: Plan
    target: LoadTarget


class Subject(Struct, frozen=True):
    """What is loaded: an engine, or the endpoint itself (`process` None). `kernel`: it forwards in the kernel.
    `answering`: the process that leads those of the endpoint."""

    name: str
    port: int
    target: LoadTarget
    process: EngineProcess | None = None
    address: str = LOOPBACK
    kernel: bool = False
    answering: int | None = None

    def leaders(self) -> list[int]:
        """The processes that lead its groups: the engine, and its agent."""
        if self.process is None or self.kernel:
            return []
        return [self.process.pid, *([self.process.agent.pid] if self.process.agent is not None else [])]


@contextmanager
def running(
    units: Sequence[Unit],
    accept: tuple[str, ...],
    delays: Mapping[str, Delay] | None = None,
    body_bytes: int = BODY_BYTES,
    *,
    separate: bool = False,
) -> Iterator[tuple[list[Subject], dict[str, tuple[Diagnostic, ...]]]]:
    """The endpoint and every unit before it, for as long as the block lasts; by name why others did not start.
    `separate`: engines have cores of their own, half of them.

    `delays`: by field of an endpoint the seconds after which it answers, or two between which it chooses; `direct` is
    one without, if there is any."""
    late = delays or {}
    plans = moved_plans([(unit.choice, unit.plan) for unit in units])
    endpoints = [endpoint for each in plans for pool in each.pools for endpoint in pool.endpoints]
    first = units[0].target
    direct = min(endpoints, key=lambda each: (each.field in late, each.field != first.endpoint)).port
    failed: dict[str, tuple[Diagnostic, ...]] = {}
    with ExitStack() as stack:
        networks = [stack.enter_context(network()) if unit.choice.kernel else None for unit in units]
        addresses = [LOOPBACK, *(each.host for each in networks if each is not None)]
        cores = len(os.sched_getaffinity(0)) - (len(engine_cores()) if separate else 0)
        server = _Server({each.port: late.get(each.field, 0.0) for each in endpoints}, body_bytes, cores)
        answering = stack.enter_context(_endpoint(addresses, server))
        subjects = [Subject(DIRECT, direct, replace(first, server_name=None), answering=answering)]
        for unit, plan, inside in zip(units, plans, networks, strict=True):
            try:
                choice, port = unit.choice, plan.listener(unit.target.listener).port
                moved, far, own = plan, None, answering
                if inside is not None and endpoint_rules(choice, plan):
                    far = stack.enter_context(far_endpoint(inside))
                    own = stack.enter_context(_endpoint((far.address,), server, far.network))
                    moved = _within(plan, inside.inside, far.address)
                elif inside is not None:
                    moved = _within(plan, _EVERY_ADDRESS, inside.host)
                moved = with_workers(moved, max(1, len(engine_cores()))) if separate else moved
                engine = run_engine(
                    choice.engine, moved, choice.binary, accept=accept, seconds=_START_SECONDS, network=inside
                )
                address = LOOPBACK if inside is None else inside.inside
                process = stack.enter_context(engine)
                if far is not None:
                    far.load_rules(process)
                subject = Subject(unit.name, port, unit.target, process, address, choice.kernel, own)
                wait_serving(unit.name, (address, port), unit.target, process)
                subjects.append(subject)
            except LbgenError as error:
                failed[unit.name] = error.diagnostics
        if separate:
            stack.enter_context(apart([x for each in subjects for x in each.leaders()], [answering]))
        yield subjects, failed


def moved_plans(units: Sequence[tuple[EngineChoice, Plan]]) -> list[Plan]:
    """The plan of each engine with listeners and endpoints on free ports of 127.0.0.1, none of them twice."""
    jobs = move_to_loopback(
        [
            Job(x.name, x.version, x.binary, replace(plan, resolvers=x.resolvers), (), isolated=False)
            for x, plan in units
        ]
    )
    free = FreePorts(avoid={p for job in jobs for p in _ports(job.plan)})
    return [_with_metrics(job.plan, free) for job in jobs]


def _ports(plan: Plan) -> Iterator[int]:
    yield from (listener.port for listener in plan.listeners)
    yield from (endpoint.port for pool in plan.pools for endpoint in pool.endpoints)


def _with_metrics(plan: Plan, free: FreePorts) -> Plan:
    """Engines that run side by side cannot share the port of their metrics."""
    return plan if plan.metrics is None else replace(plan, metrics=Metrics(LOOPBACK, free.take()))


def _within(plan: Plan, address: str, host: str) -> Plan:
    """The plan for an engine at `address` in a network namespace, from which endpoints are at `host`."""
    plan = replace(plan, listeners=tuple(replace(x, address=address) for x in plan.listeners))
    return with_endpoints(plan, {x.field: (host, x.port) for pool in plan.pools for x in pool.endpoints})


class _Server(Struct, frozen=True):
    """What answers: by port after how many seconds, with how many bytes, and in how many processes."""

    delays: Mapping[int, Delay]
    body_bytes: int
    processes: int


@contextmanager
def _endpoint(addresses: Sequence[str], server: _Server, within: Network | None = None) -> Iterator[int]:
    """The id of the process that answers at all these addresses and its ports; it ends with the block, or with this
    process."""
    ports = list(server.delays)
    order = json.dumps({**asdict(server), "addresses": addresses, "ports": ports})
    argv = [sys.executable, "-I", "-S", str(endpoint_program.__file__), order]
    with TemporaryDirectory(prefix="lbgen-bench-") as folder:
        log = Path(folder) / "output.log"
        with log.open("wb") as output:
            netns = None if within is None else within.holder.pid
            process = spawn(argv, user=User(), directory=Path(folder), output=output, netns=netns)
        try:
            end = time.monotonic() + _START_SECONDS
            while not _all_accept(addresses[0], ports, within):
                if process.poll() is not None or time.monotonic() > end:
                    text = log.read_text("utf-8", "replace")[-500:]
                    raise EngineError(Diagnostic("LB403", f"the endpoint of the benchmark did not start: {text}"))
                time.sleep(0.02)
            yield process.pid
        finally:
            stop(process, SIGTERM, 2.0)


def _all_accept(address: str, ports: Sequence[int], within: Network | None) -> bool:
    def ask() -> bool:
        return all(accepts(address, port) for port in ports)

    return ask() if within is None else within.run_inside(ask)


def wait_serving(name: str, place: tuple[str, int], target: LoadTarget, process: EngineProcess | None) -> None:
    """Return once the target is answered with 200. EngineError LB403 with the last status."""
    end = time.monotonic() + _START_SECONDS
    while (status := _get(place, target)) != _OK:
        if process is not None:
            process.ensure_alive()
        if time.monotonic() > end:
            message = f"{name} answers {target.target} with status {status} instead of {_OK}"
            raise EngineError(Diagnostic("LB403", message))
        time.sleep(0.05)


def _get(place: tuple[str, int], target: LoadTarget) -> int:
    """The status of one GET; 0 without an answer."""
    connection = http.client.HTTPConnection(*place, timeout=5)
    try:
        connection.connect()
        if target.server_name is not None:
            connection.sock = trusting_context().wrap_socket(connection.sock, server_hostname=target.server_name)
        connection.putrequest("GET", target.target, skip_host=True, skip_accept_encoding=True)
        for name, value in target.headers:
            connection.putheader(name, value)
        connection.endheaders()
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def engine_cores() -> frozenset[int]:
    """The second half of the cores that this thread may use; empty where that is one core."""
    cores = sorted(os.sched_getaffinity(0))
    return frozenset(cores[(len(cores) + 1) // 2 :])


@contextmanager
def apart(engines: Iterable[int], others: Iterable[int]) -> Iterator[None]:
    """Keep the groups of `engines` on the engines' cores, and those of `others`, and what this thread starts in the
    block, on the rest. Leaders lead groups of processes; no effect on a single core."""
    every, own = os.sched_getaffinity(0), engine_cores()
    if own:
        _keep(engines, own)
        _keep(others, every - own)
        os.sched_setaffinity(0, every - own)
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


def _keep(leaders: Iterable[int], cores: Iterable[int]) -> None:
    """Every thread there is; those that it starts later inherit it."""
    for leader in leaders:
        for member in group_members(leader):
            with suppress(OSError):  # it has ended meanwhile
                for thread in Path(f"/proc/{member.pid}/task").iterdir():
                    os.sched_setaffinity(int(thread.name), cores)


_TO_BALANCER, _TO_ENDPOINTS = "near0", "far0"
_LOOSE = "2"  # packets come from the balancer, and the route back is another one


class FarEndpoint(Struct, frozen=True):
    """`address` is that of the endpoints, on a link to the balancer."""

    address: str
    network: Network

    def load_rules(self, process: EngineProcess) -> None:
        """Load what the engine has rendered for it. Raises EngineError LB403."""
        for rules in process.spec.endpoint_rules:
            for command in rules.setup:
                self.network.run_command(command, process.directory)


@contextmanager
def far_endpoint(balancer: Network) -> Iterator[FarEndpoint]:
    """The namespace, for as long as the block lasts. Raises EngineError LB403 when the kernel or `ip` refuse."""
    with network() as far:
        near, own = free_pair(far.holder.pid)
        balancer.ip(
            f"link add {_TO_ENDPOINTS} type veth peer name {_TO_BALANCER} netns {far.holder.pid}",
            f"address add {near}/30 dev {_TO_ENDPOINTS}",
            f"link set {_TO_ENDPOINTS} up",
        )
        far.ip(f"address add {own}/30 dev {_TO_BALANCER}", f"link set {_TO_BALANCER} up")
        far.set_sysctls([(f"net.ipv4.conf.{_TO_BALANCER}.rp_filter", _LOOSE)])
        Path(f"/proc/sys/net/ipv4/conf/{far.device}/rp_filter").write_text(_LOOSE, encoding="ascii")
        yield FarEndpoint(str(own), far)
