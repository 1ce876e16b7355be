"""Plan and engines -> a running stack of containers; and finding, and ending, the stacks there are."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity
from lbgen.engines.verdicts import judge
from lbgen.runtime import readiness, selection
from lbgen.runtime.docker import images, network, wanted
from lbgen.runtime.docker.client import connect, told
from lbgen.runtime.docker.container import tail
from lbgen.runtime.docker.converge import Converger, Found, found, remove
from lbgen.runtime.docker.labels import Role
from lbgen.runtime.docker.wanted import Chosen
from lbgen.runtime.driver import Result
from lbgen.runtime.hot import refusal
from lbgen.runtime.local.order import Progress, Step
from lbgen.runtime.local.process import START_SECONDS, for_version
from lbgen.runtime.local.state import EndpointState, EngineState, StackState, locked, root
from lbgen.runtime.logs import Line, access_parser
from lbgen.runtime.standins import Cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from docker import DockerClient

    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan

_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class ContainerState(EngineState):
    """An engine in a container; `status` is docker's word for it, `container` its name."""

    status: str = ""
    container: str = ""

    @property
    def running(self) -> bool:
        return self.status == "running"


@dataclass(frozen=True, slots=True)
class ContainerStack(StackState):
    """A stack of containers; nobody but docker has to watch over it."""

    @property
    def runtime(self) -> str:
        return "docker"

    @property
    def alive(self) -> bool:
        return any(engine.running for engine in self.engines)


def up(
    plan: Plan,
    engines: Sequence[Engine],
    *,
    insist: bool,
    backends: bool,
    accept: tuple[str, ...],
    progress: Callable[[Progress], None],
    seconds: float = START_SECONDS,
) -> Result:
    """Bring `plan` up on `engines` in containers; what is right stays, what goes wrong leaves all as it was.

    Raises LbgenError (verdicts), EngineError LB403 to LB405, LB420 to LB422.
    """
    client = connect()
    with locked(f"docker-{plan.name}"):
        before = found(client, plan.name)
        chosen, skipped = selection.choose(
            engines, lambda target: _decide(client, plan, target, accept, progress), insist=insist
        )
        chosen = _place(plan, chosen, before)
        helper = images.helper(client, lambda text: progress(Progress(Step.BUILDING, "helper", text)))
        subnet = network.ensure(client, plan.name)
        cast = wanted.stand_ins(plan, subnet, _folder(plan)) if backends else Cast()
        parts = [wanted.endpoints_container(plan, cast, helper, subnet)] if backends else []
        plans = {}
        for each in chosen:
            inside = plans[each.engine.name] = wanted.plan_for(plan, each, cast, subnet)
            parts += wanted.engine_containers(plan, each, inside, helper, accept)
        work = Converger(client, plan.name, network.name(plan.name), progress)
        try:
            work.converge(parts)
            warnings = _until_routes_answer(client, plan, plans, progress, backends=backends, seconds=seconds)
        except BaseException:  # also Ctrl-C: nothing half done keeps running
            work.undo()
            if not found(client, plan.name):
                network.remove(client, plan.name)
            raise
        work.keep()
        return Result(
            _state(plan.name, list(found(client, plan.name))),
            skipped,
            warnings,
            not work.changed,
            bool(before) and work.changed,
        )


def _folder(plan: Plan) -> Path:
    """Where the certificates of stand-ins are kept: of other pools, another folder."""
    asked = repr([(pool.name, pool.tls) for pool in plan.pools])
    return root() / "docker" / plan.name / hashlib.sha256(asked.encode()).hexdigest()[:16]


def _decide(
    client: DockerClient, plan: Plan, target: Engine, accept: tuple[str, ...], progress: Callable[[Progress], None]
) -> Chosen:
    from lbgen.engines.api import target_version

    version = target_version(target, plan.options(target.name).version)
    named = replace(for_version(plan, target.name, version), resolvers=plan.resolvers or (wanted.RESOLVER,))
    _, problems = judge(named, target, version, accept)
    if problems:
        raise LbgenError(problems)
    image = images.choose(client, target, version, progress)
    return Chosen(target, version, image)


def _place(plan: Plan, chosen: tuple[Chosen, ...], before: tuple[Found, ...]) -> tuple[Chosen, ...]:
    """Port offsets: what an engine has already it keeps."""
    had = {x.record.engine: x.record.offset for x in before if x.record.role is Role.ENGINE}
    ours = {a.port for x in before if x.running for a in x.record.addresses}
    names = [(each.engine.name, each.engine.title) for each in chosen]
    found = selection.offsets(plan, names, had, ours, wanted.outside)
    return tuple(replace(each, offset=found[each.engine.name]) for each in chosen)


def _until_routes_answer(
    client: DockerClient,
    plan: Plan,
    plans: dict[str, Plan],
    progress: Callable[[Progress], None],
    *,
    backends: bool,
    seconds: float,
) -> tuple[Diagnostic, ...]:
    """Wait for every route of every engine; EngineError LB403 when its container ends, LB405 when a route fails."""
    complaints: list[Diagnostic] = []
    made = {x.name: x for x in found(client, plan.name)}
    for name, inside in plans.items():
        each = made[wanted.container_name(plan.name, name)]
        where = {address.listener: (address.host, address.port) for address in each.record.addresses}
        probes = readiness.probes(inside)
        title = each.record.title

        def answered(probe: readiness.Probe, left: int, name: str = name, total: int = len(probes)) -> None:
            progress(Progress(Step.ANSWERED, name, probe.route, total - left, total))

        _stays(each, title)
        late = readiness.wait(inside, probes, where.__getitem__, backends=backends, seconds=seconds, answered=answered)
        if late:
            _stays(each, title)
        complaints += readiness.unasked(inside, probes, title)
        complaints += readiness.diagnostics(late, title, inside, backends=backends, seconds=seconds)
        if not late:
            progress(Progress(Step.READY, name))
    if any(each.severity is Severity.ERROR for each in complaints):
        raise EngineError(complaints)
    return tuple(complaints)


def _stays(each: Found, title: str) -> None:
    """EngineError LB403 with its last lines when a container ended, or keeps ending."""
    with told(f"looking at {each.name}"):
        each.made.reload()
    state = each.made.attrs["State"]
    if state["Status"] == "running" and not each.made.attrs.get("RestartCount"):
        return
    said = tail(each.made)
    message = f"{title} ended with exit status {state['ExitCode']} while starting; it said:\n{said or '  nothing'}"
    raise EngineError(Diagnostic("LB403", message))


def reload(
    stack: StackState,
    plan: Plan,
    *,
    accept: tuple[str, ...],
    progress: Callable[[Progress], None],
    seconds: float,
) -> Result:
    """EngineError LB412: containers are replaced."""
    del plan, accept, progress, seconds
    raise EngineError(
        refusal(f"{stack.name} runs in containers, which take over a change only when they are made anew")
    )


def running() -> tuple[StackState, ...]:
    """Every stack of containers that this daemon has."""
    client = connect()
    every = found(client)
    names = sorted({each.record.stack for each in every})
    return tuple(_state(name, [x for x in every if x.record.stack == name]) for name in names)


def _state(name: str, parts: list[Found]) -> ContainerStack:
    engines = []
    for each in parts:
        if each.record.role is not Role.ENGINE:
            continue
        attrs = each.made.attrs
        state = attrs["State"]
        ended = "" if each.running else f"{state['Status']} with exit status {state['ExitCode']}"
        engines.append(
            ContainerState(
                each.record.engine,
                each.record.title,
                each.record.program_version or each.record.version,
                attrs["Config"]["Image"],
                "",
                each.record.addresses,
                pid=int(state.get("Pid") or 0),
                ended=ended,
                restarts=int(attrs.get("RestartCount") or 0),
                died=ended or "ended",
                access_log=each.record.access_log,
                status=each.made.status,
                container=each.name,
            )
        )
    return ContainerStack(name, "", 0, 0, True, tuple(engines), _endpoints(parts))


def _endpoints(parts: list[Found]) -> tuple[EndpointState, ...]:
    for each in parts:
        if each.record.role is Role.ENDPOINTS:
            listed = json.loads(each.record.detail or "[]")
            return tuple(EndpointState(**entry) for entry in listed)
    return ()


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Stop and remove all that belongs to a stack."""
    client = connect()
    with locked(f"docker-{stack.name}"):
        remove(client, stack.name, progress)
        network.remove(client, stack.name)
        shutil.rmtree(root() / "docker" / stack.name, ignore_errors=True)


def lines(stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """What the containers of a stack printed, and the requests they logged; `follow` until they end."""
    client = connect()
    since: dict[str, str] = {}
    parsers = {each.name: access_parser(each.name) for each in stack.engines}
    while True:
        every = [x for x in found(client, stack.name) if engine in (None, x.record.engine)]
        new: list[tuple[str, str, str]] = []
        for each in every:
            for stamp, text in _printed(each, since):
                new.append((stamp, _source(each), text))
        for _, source, text in sorted(new, key=lambda x: x[0]):
            parse = parsers.get(source)
            yield Line(source, text, parse(text) if parse is not None else None)
        if not follow or not any(x.running for x in every):
            return
        time.sleep(_LOOK_SECONDS)


def _source(each: Found) -> str:
    if each.record.role is Role.AGENT:
        return f"{each.record.engine}-agent"
    return each.record.engine or str(each.record.role)


def _printed(each: Found, since: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(time, line) that are newer than `since`, which is moved on."""
    last = since.get(each.name, "")
    with told(f"reading the log of {each.name}"):
        after = int(datetime.fromisoformat(last).timestamp()) if last else None
        text = each.made.logs(timestamps=True, since=after).decode("utf-8", "replace")
    for line in text.splitlines():
        stamp, _, rest = line.partition(" ")
        if stamp > last:  # docker looks at whole seconds
            since[each.name] = max(stamp, since.get(each.name, ""))
            yield stamp, rest
