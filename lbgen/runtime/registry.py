"""Runtimes, and the stacks that there are: of all runtimes, those of a topology of tiers as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from importlib.util import find_spec
from ipaddress import ip_address

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, Severity, UsageError
from lbgen.plan.model import Plan
from lbgen.runtime.common.driver import Driver, Progress, Running
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.state import StackState
from lbgen.runtime.docker import client, inspect, labels
from lbgen.runtime.docker import stack as docker
from lbgen.runtime.local import stack as local
from lbgen.runtime.orchestrators import run as orchestrators
from lbgen.runtime.tiers import group
from lbgen.runtime.tiers.group import GroupState

RUNTIMES = ("local", "docker", *orchestrators.ORCHESTRATORS)


def driver(runtime: str) -> Driver:
    """The runtime of this machine of that name."""
    return local if runtime == "local" else docker


def _runtime(state: StackState) -> Running:
    return orchestrators if state.runtime in orchestrators.ORCHESTRATORS else driver(state.runtime)


def list_stacks(name: str | None = None) -> tuple[StackState, ...]:
    """The stacks of all runtimes, those of a topology of tiers as one; with `name` those of that name."""
    return tuple(each for each in _every(name)[0] if name in (None, each.name))


def _every(name: str | None = None) -> tuple[tuple[StackState, ...], tuple[Diagnostic, ...]]:
    """The stacks, and why those of containers are not among them (LB420), where they cannot be seen. With `name` others
    than that stack may lack: docker needs several requests for each."""
    groups = group.list_groups()
    names = None if name is None else {name}.union(*(each.names for each in groups if each.name == name))
    containers, hidden = _containers(names)
    found = (*local.running(), *containers, *orchestrators.running(names))
    parts = frozenset(name for each in groups for name in each.names)
    return (*(x for x in found if x.name not in parts), *(group.as_one_stack(each, found) for each in groups)), hidden


def _containers(names: Collection[str] | None) -> tuple[tuple[StackState, ...], tuple[Diagnostic, ...]]:
    """Stacks of containers (None = all); none where no daemon answers, and why."""
    if not may_have_docker():
        return (), ()

    try:
        return docker.running(names), ()
    except EngineError as error:
        if any(each.code != "LB420" for each in error.diagnostics):
            raise
        return (), error.diagnostics


def docker_unreachable() -> tuple[Diagnostic, ...]:
    """Why stacks of containers cannot be seen (LB420), where there is reason to think of a docker daemon."""
    if not may_have_docker():
        return ()

    found = client.why_unavailable()
    return () if found is None else (replace(found, severity=Severity.WARNING),)


def default_runtime(plan: Plan, *, backends: bool) -> tuple[str, tuple[Diagnostic, ...]]:
    """The runtime for a new stack: docker when a daemon answers, else local, with a warning where one is configured.

    Local as well where an endpoint is on this host's loopback, which containers do not share. EngineError LB420 when a
    daemon is there and fails, or does not answer and has run this stack before: its containers may still run.
    """
    real = (x for x in plan.pools if not x.is_agent and (not backends or x.stand_ins is False))
    hosts = (endpoint.host for pool in real for endpoint in pool.endpoints if endpoint.is_ip)
    if any(ip_address(host).is_loopback for host in hosts) or not may_have_docker():
        return "local", ()

    try:
        client.connect().close()
    except EngineError as error:
        if isinstance(error, client.DaemonFailureError) or labels.saved_folder(plan.name).exists():
            raise
        return "local", tuple(replace(each, severity=Severity.WARNING) for each in error.diagnostics)
    return "docker", ()


def may_have_docker() -> bool:
    """Whether it is worth asking a daemon."""
    return find_spec("docker") is not None and client.is_configured()


def find_stack(name: str | None) -> StackState:
    """The stack of that name; None = the only one of this state directory: those of others have to be named. UsageError
    LB406 when there is none, or several."""
    ours = (*local.running(), *(orchestrators.running((name,)) if name is not None else ()))
    here = next((each for each in ours if each.name == name), None)
    if here is not None:  # no daemon needs to be asked
        return here
    known, hidden = _every(name)
    found = [each for each in known if (each.name == name if name is not None else not each.foreign_owner)]
    if not found and name is not None:  # a part of one
        found = [x for each in known if isinstance(each, GroupState) for _, x in each.parts if x.name == name]
    if not found and name is not None:
        known, hidden = _every()  # for the message
    if len(found) == 1:
        return found[0]
    there = ", ".join(each.name for each in known)
    if hidden and not found:
        what = "no stack" if name is None else f"no stack {name!r}"
        message = f"{what} runs as processes of this host, and containers cannot be seen: {hidden[0].message}"
        raise EngineError(Diagnostic("LB420", message, hint=hidden[0].hint))
    if name is not None:
        hint = f"there is {there}" if there else "nothing runs"
        raise UsageError(Diagnostic("LB406", f"no stack {name!r} runs", hint=hint))
    if not found and known:
        others = ", ".join(f"{each.name} belongs to {each.foreign_owner}" for each in known)
        message = "no stack of this state directory runs"
        raise UsageError(Diagnostic("LB406", message, hint=f"{others}; name a stack if you mean it"))
    if not found:
        raise UsageError(Diagnostic("LB406", "no stack runs", hint="start one with `lbgen up`"))
    names = ", ".join(each.name for each in found)
    raise UsageError(Diagnostic("LB406", "several stacks run", hint=f"name one: {names}"))


def find_leftovers(name: str | None) -> StackState | None:
    """What is left of a stack of containers that went without them; with `name` None, if it is the only such stack of
    this state directory."""
    if not may_have_docker():
        return None

    left = inspect.leftover_stacks()
    found = [each for each in left if (each.name == name if name is not None else not each.foreign_owner)]
    return found[0] if len(found) == 1 else None


def remove_stack(state: StackState, progress: Callable[[Progress], None]) -> None:
    if isinstance(state, GroupState):
        group.end(state, driver(state.runtime), progress)
    else:
        _runtime(state).end(state, progress)


def lines(state: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """What a stack printed and the requests that it logged, of one engine or all; `follow`: until it ends."""
    if isinstance(state, GroupState):
        return group.lines(state, driver(state.runtime), engine, follow=follow)
    return _runtime(state).lines(state, engine, follow=follow)
