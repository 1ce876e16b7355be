"""A topology -> a running stack and back to nothing: up, ps, logs, down, the library twins of those commands."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self

from lbgen.diagnostics import Diagnostic, EngineError, Severity, UsageError
from lbgen.engines.api import engine as engine_by_name
from lbgen.engines.api import engines as installed
from lbgen.plan.model import Plan
from lbgen.runtime import group
from lbgen.runtime import logs as log_files
from lbgen.runtime.driver import DRAIN_SECONDS, RELOAD_SECONDS
from lbgen.runtime.group import GroupState
from lbgen.runtime.local import stack as local
from lbgen.runtime.local.order import Progress, Step
from lbgen.runtime.local.process import START_SECONDS
from lbgen.runtime.tiers import Wanted, named
from lbgen.runtime.tiers import up as tiers_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from lbgen.engines.api import Engine
    from lbgen.runtime.driver import Driver, Result
    from lbgen.runtime.health import EndpointHealth
    from lbgen.runtime.local.state import Address, EndpointState, EngineState, StackState
    from lbgen.runtime.logs import Line, Requests
    from lbgen.spec.load import Topology

__all__ = ["RUNTIMES", "Progress", "Stack", "Step", "down", "logs", "ps", "reload", "requests", "up"]

RUNTIMES = ("local", "docker")
ANY_REQUEST = log_files.Requests()


def driver(runtime: str) -> Driver:
    """The runtime of that name; docker's is loaded when it is first asked for."""
    if runtime == "local":
        return local
    from lbgen.runtime.docker import stack

    return stack


@dataclass(frozen=True, slots=True)
class Swapped:
    """What clients of our own saw while engine `after` took the place of `before`: `requests` of them that `failed`
    (`first` says how), the longest time in which new connections failed, and `dropped` of `sockets` (WebSockets, TCP
    streams) that they held open. `cut`: connections of `before` that were still open when its time was over.
    `verified` says what was compared first."""

    before: str
    after: str
    requests: int
    failed: int
    first: str
    gap_ms: int
    sockets: int
    dropped: int
    cut: int
    verified: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """What `up` brought up, or `ps` found. It lives on after `up` returned; a `with` block takes it down at its end.

    `skipped` names engines that were left out with the findings that say why, `warnings` are routes whose own endpoints
    do not answer or that could not be asked, `unchanged` says that it already ran just so, `replaced` that another
    version of it was stopped, `reloaded` that what ran took over the change, `swapped` what a swap cost.
    """

    state: StackState
    skipped: tuple[tuple[str, tuple[Diagnostic, ...]], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    unchanged: bool = False
    replaced: bool = False
    reloaded: bool = False
    swapped: Swapped | None = None

    @classmethod
    def of(cls, result: Result) -> Self:
        """What a driver's `up` made."""
        return cls(result.state, result.skipped, result.warnings, result.unchanged, result.replaced, result.reloaded)

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def engines(self) -> tuple[EngineState, ...]:
        """Name, version, executable, pid, addresses, log and whether it runs, for each engine."""
        return self.state.engines

    @property
    def endpoints(self) -> tuple[EndpointState, ...]:
        """The stand-ins; empty without."""
        return self.state.endpoints

    @property
    def alive(self) -> bool:
        """Whether its supervisor (or one of its containers) lives. If not, `down` clears what is left."""
        return self.state.alive

    @property
    def urls(self) -> dict[str, dict[str, str]]:
        """Engine -> listener -> URL (http or https for L7, tcp or udp for L4)."""
        return {engine.name: {a.listener: a.url for a in engine.addresses} for engine in self.engines}

    def address(self, listener: str, engine: str | None = None) -> Address:
        """Where `listener` is reached on `engine` (default: the first). KeyError when there is no such one."""
        for each in self.engines:
            if engine in (None, each.name):
                for address in each.addresses:
                    if address.listener == listener:
                        return address
        raise KeyError(listener if engine is None else f"{listener} on {engine}")

    def url(self, listener: str, engine: str | None = None) -> str:
        """The URL of `listener` on `engine` (default: the first). KeyError when there is no such one."""
        return self.address(listener, engine).url

    def health(self) -> dict[str, tuple[EndpointHealth, ...]]:
        """How each engine finds the endpoints of its pools, by its name; they are asked now, side by side."""
        engines = {engine.name: engine for engine in self.engines}
        if isinstance(self.state, GroupState):
            engines = {part: engine for part, stack in self.state.parts for engine in stack.engines}
        with ThreadPoolExecutor(max(len(engines), 1)) as side_by_side:
            found = side_by_side.map(lambda engine: engine.health, engines.values())
            return dict(zip(engines, found, strict=True))

    def down(self) -> None:
        """Stop everything of this stack; nothing happens when it is already down."""
        _end(self.state, _ignore)

    def as_dict(self) -> dict[str, object]:
        """The JSON record: name, alive, engines, endpoints, skipped, warnings."""
        health = self.health()
        return {
            "name": self.name,
            "runtime": self.state.runtime,
            "alive": self.alive,
            "unchanged": self.unchanged,
            "replaced": self.replaced,
            "reloaded": self.reloaded,
            "swapped": None if self.swapped is None else asdict(self.swapped),
            "engines": [
                {
                    "name": x.name,
                    "version": x.version,
                    "binary": x.binary,
                    "pid": x.pid,
                    "running": x.running,
                    "ended": x.ended,
                    "restarts": x.restarts,
                    "died": x.died,
                    "log": str(x.log),
                    "urls": {a.listener: a.url for a in x.addresses},
                    "health": [asdict(each) for each in health[x.name]],
                }
                for x in self.engines
            ],
            **({"tiers": self._tiers()} if isinstance(self.state, GroupState) else {}),
            "endpoints": [{"name": x.name, "pool": x.pool, "host": x.host, "port": x.port} for x in self.endpoints],
            "skipped": {name: [each.as_dict() for each in reasons] for name, reasons in self.skipped},
            "warnings": [each.as_dict() for each in self.warnings],
        }

    def _tiers(self) -> list[dict[str, object]]:
        """The members of a stack that has tiers."""
        found = self.state.group.members if isinstance(self.state, GroupState) and self.state.group is not None else ()
        return [
            {"name": x.of.part, "tier": x.tier, "replica": x.replica, "engine": x.engine, "stack": x.of.name}
            for x in found
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()


def _ignore(progress: Progress) -> None:
    """Nobody watches."""


def up(
    topology: Topology | Plan,
    engines: Sequence[str | Engine] | None = None,
    *,
    engine: str | Engine | None = None,
    runtime: str | None = None,
    backends: bool = True,
    accept: tuple[str, ...] = (),
    name: str | None = None,
    replicas: Mapping[str, int] | None = None,
    progress: Callable[[Progress], None] = _ignore,
    seconds: float = START_SECONDS,
    drain: float = DRAIN_SECONDS,
) -> Stack:
    """Start `topology` on `engine` (or several `engines`; default: all that can) and return when every route answers.

    `runtime`: `docker`, containers that are published on 127.0.0.1 unless a listener names another address, or `local`,
    processes of this host; None is that on which the stack runs already, else docker when a daemon answers. One engine
    gets the topology's own ports, several an offset each. `backends` replaces the pools' endpoints by stand-ins that
    answer JSON. `name` (default: the topology's) tells stacks apart: one of that name that runs the same is left alone,
    one that differs takes over the change as by `reload` where it can, or is replaced: containers without a gap, unless
    their published ports are others; their open connections live on for `drain` seconds at most.
    A topology of tiers becomes a stack that has a part for each replica, one engine each (see `lbgen.runtime.tiers`);
    `replicas` says how many, by tier, instead of the topology.
    `progress` is called with every step. `seconds` is how long to wait for listeners, and again for routes. If this
    process ends before `up` returns, nothing new keeps running.

    Raises LbgenError (findings, verdicts), UsageError LB305/LB409 (unknown engine, runtime), EngineError LB402 (no
    executable), LB403 (did not start), LB404 (port taken), LB405 (route answers wrongly), LB407 (root), LB408 (state),
    LB420 (no docker daemon), LB421 (docker refused something), LB422 (no image).
    """
    if runtime is not None and runtime not in RUNTIMES:
        hint = f"one of: {', '.join(RUNTIMES)}"
        raise UsageError(Diagnostic("LB409", f"unknown runtime {runtime!r}", hint=hint))
    asked = [engine] if engine is not None else engines
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None or replicas:
            targets = [_engine(each) for each in dict.fromkeys(asked or ())]
            wanted = Wanted(named(topology, name), replicas or {}, tuple(targets), backends, accept, seconds, drain)
            return _tiers_up(wanted, runtime, progress)
        from lbgen.plan.resolve import plan

        topology = plan(topology)
    if name is not None:
        topology = replace(topology, name=name)
    other = next((each for each in _every() if each.name == topology.name), None)
    fallen_back: tuple[Diagnostic, ...] = ()
    if runtime is None and other is not None:
        runtime = other.runtime
    elif runtime is None:
        runtime, fallen_back = _default(topology, backends=backends)
    if other is not None and other.runtime != runtime:
        message = f"{other.name} runs already, on the runtime {other.runtime}"
        raise UsageError(Diagnostic("LB406", message, hint=f"lbgen down {other.name}, or give this one another name"))
    targets = list(installed().values()) if asked is None else [_engine(each) for each in dict.fromkeys(asked)]
    result = driver(runtime).up(
        topology,
        targets,
        insist=asked is not None,
        backends=backends,
        accept=accept,
        progress=progress,
        seconds=seconds,
        drain=drain,
    )
    stack = Stack.of(result)
    return replace(stack, warnings=(*fallen_back, *stack.warnings))


def _tiers_up(wanted: Wanted, runtime: str | None, progress: Callable[[Progress], None]) -> Stack:
    from lbgen.plan.tiers import tiers

    name = wanted.topology.name
    found = tiers(wanted.topology, wanted.replicas)
    if wanted.engines and all(tier.engine is not None for tier in found):
        message = "every tier of this topology names its engine, so none is left to choose"
        raise UsageError(Diagnostic("LB305", message, hint="leave the engines out, or drop engine: from a tier"))
    other = next((each for each in _every() if each.name == name), None)
    fallen_back: tuple[Diagnostic, ...] = ()
    if runtime is None and other is not None:
        runtime = other.runtime
    elif runtime is None:
        best = [_default(tier.plan, backends=wanted.backends) for tier in found]
        runtime, fallen_back = next((each for each in best if each[0] == "local"), best[0])
    if other is not None and (other.runtime != runtime or not isinstance(other, GroupState)):
        what = f"on the runtime {other.runtime}" if other.runtime != runtime else "without tiers"
        message = f"{other.name} runs already, {what}"
        raise UsageError(Diagnostic("LB406", message, hint=f"lbgen down {other.name}, or give this one another name"))
    result = tiers_up(wanted, driver(runtime), runtime, progress)
    warnings = (*fallen_back, *result.warnings)
    return Stack(result.state, result.skipped, warnings, result.unchanged, result.replaced, result.reloaded)


def reload(
    topology: Topology | Plan,
    *,
    name: str | None = None,
    accept: tuple[str, ...] = (),
    progress: Callable[[Progress], None] = _ignore,
    seconds: float = RELOAD_SECONDS,
) -> Stack:
    """Have the running stack of that name (default: the topology's) serve `topology` from now on, no request lost.

    The engines' own checkers see the new files first. They are put in place whole, loaded the engine's own way, and
    every route is asked; when one does not answer as it must within `seconds`, all engines go back to the files before.
    `accept` comes on top of what `up` accepted. Raises LbgenError (findings, verdicts), UsageError LB406 (nothing of
    that name runs), EngineError LB401 (a checker refuses the files), LB404 (port taken), LB412 (only possible with a
    new start), LB413 (taken back, and why).
    """
    if not isinstance(topology, Plan):
        if topology.model.tiers is not None:
            topology = named(topology, name)
            here = running(topology.name)
            backends = isinstance(here, GroupState) and here.group is not None and here.group.backends
            return _tiers_up(Wanted(topology, {}, (), backends, accept, seconds), here.runtime, progress)
        from lbgen.plan.resolve import plan

        topology = plan(topology)
    if name is not None:
        topology = replace(topology, name=name)
    found = running(topology.name)
    result = driver(found.runtime).reload(found, topology, accept=accept, progress=progress, seconds=seconds)
    return Stack(result.state, result.skipped, result.warnings, reloaded=True)


def ps(name: str | None = None) -> tuple[Stack, ...]:
    """Every stack of this user, or the one of that name (UsageError LB406 when there is none)."""
    return tuple(Stack(each) for each in (_every() if name is None else (running(name),)))


def logs(name: str | None = None, engine: str | None = None, *, follow: bool = False) -> Iterator[Line]:
    """What a stack's processes printed and the requests that its engines logged (`Line.record`).

    `name` None = the only stack, `engine` one of it, `follow` until it ends. Raises UsageError LB406 when there is no
    such stack or engine.
    """
    found = running(name)
    if engine is not None and engine not in {each.name for each in found.engines}:
        hint = f"one of: {', '.join(each.name for each in found.engines)}"
        raise UsageError(Diagnostic("LB406", f"{engine} is not part of {found.name}", hint=hint))
    if isinstance(found, GroupState):
        return group.lines(found, driver(found.runtime), engine, follow=follow)
    return driver(found.runtime).lines(found, engine, follow=follow)


def requests(
    name: str | None = None, engine: str | None = None, wanted: Requests = ANY_REQUEST, *, follow: bool = False
) -> Iterator[Line]:
    """The access log of a stack: those of `logs` that are requests. Of several engines they are in the order of time,
    unless they come with `follow`."""
    several = engine is None and len(running(name).engines) > 1
    return log_files.requests(logs(name, engine, follow=follow), wanted, sort=several and not follow)


def down(name: str | None = None, *, progress: Callable[[Progress], None] = _ignore) -> Stack:
    """Stop a stack (None = the only one) and remove all that was its own; returns what it was. UsageError LB406."""
    found = running(name)
    _end(found, progress)
    return Stack(found)


def _end(state: StackState, progress: Callable[[Progress], None]) -> None:
    if isinstance(state, GroupState):
        group.end(state, driver(state.runtime), progress)
    else:
        driver(state.runtime).end(state, progress)


def _every() -> tuple[StackState, ...]:
    """The stacks of all runtimes, those of a topology of tiers as one."""
    found = (*local.running(), *_containers())
    groups = group.every()
    parts = frozenset(name for each in groups for name in each.names)
    return (*(x for x in found if x.name not in parts), *(group.joined(each, found) for each in groups))


def _containers() -> tuple[StackState, ...]:
    """Stacks of containers; none where no daemon answers (see `unseen`)."""
    if not _may_have_docker():
        return ()
    try:
        return driver("docker").running()
    except EngineError as error:
        if any(each.code != "LB420" for each in error.diagnostics):
            raise
        return ()


def unseen() -> tuple[Diagnostic, ...]:
    """Why stacks of containers cannot be seen (LB420), where there is reason to think of a docker daemon."""
    if not _may_have_docker():
        return ()
    from lbgen.runtime.docker.client import why_not

    found = why_not()
    return () if found is None else (replace(found, severity=Severity.WARNING),)


def _default(plan: Plan, *, backends: bool) -> tuple[str, tuple[Diagnostic, ...]]:
    """Docker when a daemon answers, but for endpoints on this host's loopback, which containers do not share; and a
    warning where one was to be expected."""
    real = (pool for pool in plan.pools if not backends or pool.stand_ins is False)
    hosts = (endpoint.host for pool in real for endpoint in pool.endpoints if endpoint.is_ip)
    if any(ip_address(host).is_loopback for host in hosts):
        return "local", ()
    if not _may_have_docker():
        return "local", ()
    missing = unseen()
    return ("local", missing) if missing else ("docker", ())


def _may_have_docker() -> bool:
    """Whether it is worth asking a daemon; importing its SDK alone takes a fifth of a second."""
    from lbgen.runtime.docker.client import meant

    return find_spec("docker") is not None and meant()


def running(name: str | None) -> StackState:
    """The stack of that name; None = the only one. UsageError LB406 when there is none, or several."""
    here = next((each for each in local.running() if each.name == name), None)
    if here is not None:  # no daemon needs to be asked
        return here
    every = _every()
    found = [each for each in every if name in (None, each.name)]
    if not found and name is not None:  # a part of one
        found = [x for each in every if isinstance(each, GroupState) for _, x in each.parts if x.name == name]
    if len(found) == 1:
        return found[0]
    there = ", ".join(each.name for each in every)
    hidden = () if found else unseen()
    if hidden:
        what = "no stack" if name is None else f"no stack {name!r}"
        message = f"{what} runs as processes of this host, and containers cannot be seen: {hidden[0].message}"
        raise EngineError(Diagnostic("LB420", message, hint=hidden[0].hint))
    if name is not None:
        hint = f"there is {there}" if there else "nothing runs"
        raise UsageError(Diagnostic("LB406", f"no stack {name!r} runs", hint=hint))
    if not found:
        raise UsageError(Diagnostic("LB406", "no stack runs", hint="start one with `lbgen up`"))
    raise UsageError(Diagnostic("LB406", "several stacks run", hint=f"name one: {there}"))


def _engine(asked: str | Engine) -> Engine:
    return engine_by_name(asked) if isinstance(asked, str) else asked
