"""Reload the engines of running containers: all of them serve the new plan, or none does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.processes import defer_signals, wait_until
from lbgen.runtime.common.reload import Change, ReloadOutcome, obstacles, published_elsewhere, refusal, reload_all
from lbgen.runtime.docker import container, container_files, endpoint_rules, network
from lbgen.runtime.docker.check import check
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.container_engine import ContainerEngine
from lbgen.runtime.docker.converge import Converger, StackContainer, is_orphaned, worker_pool
from lbgen.runtime.docker.desired import FOLDER, DesiredStack, EngineUnit, plan_inside
from lbgen.runtime.docker.labels import RECORD_FILE, Role

if TYPE_CHECKING:
    from docker import DockerClient

_READY_SECONDS = 10.0


def reload_containers(
    client: DockerClient,
    desired: DesiredStack,
    there: Sequence[StackContainer],
    progress: Callable[[Progress], None],
    seconds: float,
) -> tuple[Diagnostic, ...]:
    """Have the containers `there` serve what `desired` says; returns warnings.

    Raises EngineError LB401 (an engine's checker refuses its files), LB412 (needs other containers), LB413 (rolled
    back, with the reason), LB429 (the change serves, but an agent was not started or stopped).
    """
    units, changes = plan_reload(desired, there)
    _check_files(client, units, desired.helper, progress)
    add_stand_ins(desired, there)

    def commit() -> None:
        for unit, (_, live) in zip(units, changes, strict=True):
            live.write_record(unit.record)
        desired.kept.write()

    side = endpoint_rules.read(there)
    endpoint_rules.ensure_possible(client, desired.endpoint_side, network.stand_in_address(desired.subnet))
    try:
        with endpoint_rules.loaded(client, side, desired.endpoint_side, anew=False):
            every = tuple(change for change, _ in changes)
            warnings = reload_all(every, seconds=seconds, progress=progress, commit=commit)
    except BaseException:
        with defer_signals(forget=True):
            for change, live in changes:
                if change.outcome is ReloadOutcome.BEFORE:
                    with suppress(EngineError):  # without a record its files are read
                        live.write_record(live.container.record)
        raise
    with defer_signals(), after_commit():
        for unit, (_, live) in zip(units, changes, strict=True):
            live.commit()
            progress(Progress(Step.RELOADED, unit.record.engine))
        _converge_agents(client, desired, progress)
    return warnings


def plan_reload(
    desired: DesiredStack, there: Sequence[StackContainer]
) -> tuple[list[EngineUnit], list[tuple[Change, ContainerEngine]]]:
    """The engines whose containers `there` would serve other files, and the change of each. EngineError LB412 when the
    stack needs other containers."""
    names = {each.name: each for each in there}
    _check_same_parts(desired, names)
    units = [unit for unit in desired.units if names[unit.container_spec.name].record.hash != unit.record.hash]
    return units, [_plan_change(desired, unit, names) for unit in units]


@contextmanager
def after_commit() -> Iterator[None]:
    """Turn an error after the commit, which can no longer roll the change back, into EngineError LB429."""
    try:
        yield
    except EngineError as error:
        message = "the change serves, but what goes with it is not done"
        first = Diagnostic("LB429", message, hint="`lbgen up` does the rest, and loses no request")
        raise EngineError((first, *error.diagnostics)) from error


def _converge_agents(client: DockerClient, desired: DesiredStack, progress: Callable[[Progress], None]) -> None:
    """Start agents that are now needed, remove the others."""
    work = Converger(client, desired.kept.plan.name, network.name(desired.kept.plan.name), progress)
    try:
        work.converge(desired.containers)
    except BaseException:
        work.rollback()
        raise
    work.commit()


def check_replacements(
    client: DockerClient, desired: DesiredStack, there: Sequence[StackContainer], progress: Callable[[Progress], None]
) -> None:
    """Check the files of engines that will be replaced, before anything stops. EngineError LB401."""
    now = {each.name: each.record.hash for each in there if each.running}
    _check_files(
        client,
        [x for x in desired.units if now.get(x.container_spec.name) not in (None, x.record.hash)],
        desired.helper,
        progress,
    )


def _check_files(
    client: DockerClient, units: Sequence[EngineUnit], helper: str, progress: Callable[[Progress], None]
) -> None:
    for unit in units:
        progress(Progress(Step.CHECKING, unit.record.engine))
    with worker_pool() as pool:
        for unit, problems in zip(units, pool.map(lambda each: check(client, each, helper), units), strict=True):
            if problems:
                raise EngineError(problems)
            progress(Progress(Step.CHECKED, unit.record.engine))


def needs_reload(desired: DesiredStack, there: Sequence[StackContainer]) -> bool:
    """Whether an engine of `desired` runs with other files or settings."""
    now = {each.name: each.record.hash for each in there}
    return any(now.get(unit.container_spec.name, unit.record.hash) != unit.record.hash for unit in desired.units)


def _check_same_parts(desired: DesiredStack, there: dict[str, StackContainer]) -> None:
    """Raise EngineError LB412 unless exactly the containers of `desired` run."""
    fixed = (Role.ENGINE, Role.ENDPOINTS, Role.PORTS)
    wanted_names = {each.name for each, record in desired.containers if record.role in fixed}
    if wanted_names != {name for name, each in there.items() if each.record.role in fixed}:
        raise EngineError(refusal("other engines, or other backends, run"))
    if desired.endpoints is not None:
        spec, _ = desired.endpoints
        each = there[spec.name]
        if not each.running or each.record.shape != spec.shape():
            raise EngineError(refusal("the container of the stand-ins does not run, or would have to be another one"))


def _plan_change(
    desired: DesiredStack, unit: EngineUnit, there: dict[str, StackContainer]
) -> tuple[Change, ContainerEngine]:
    """The change of one engine. EngineError LB412 when it needs another container."""
    each = there.get(unit.container_spec.name)
    title = unit.record.title
    if each is None or not each.running or desired.last is None:
        raise EngineError(refusal(f"{title} does not run, or another lbgen started it"))
    before = plan_inside(desired.last.plan, unit.choice, desired.last.stand_in_set, desired.subnet)
    spec = unit.choice.engine.process(before, unit.binary, FOLDER)
    where = {x.listener: (x.host, x.port) for x in (*each.record.addresses, *unit.record.addresses)}
    live = ContainerEngine(
        each,
        before,
        spec,
        where,
        desired.helper,
        network.gateway(desired.subnet),
        _if_running(there.get(f"{unit.container_spec.name}-{Role.AGENT}")),
        tuple(there.values()),
    )
    now = unit.container_spec.file_digests()
    found = obstacles(title, (before, spec, live.digests(now)), (unit.plan, unit.spec, now))
    ports = there[unit.holder[0].name]
    outlives = is_orphaned(each, ports) or not ports.running
    if not found and (
        (each.record.shape, ports.record.hash) != (unit.container_spec.shape(), unit.holder[1].hash) or outlives
    ):
        found = (published_elsewhere(title, before, unit.plan),)
    if found:
        raise EngineError(found)
    return Change(live, unit.plan, unit.spec, unit.rendered, (before, spec)), live


def _if_running(each: StackContainer | None) -> StackContainer | None:
    return each if each is not None and each.running else None


def find_extendable(desired: DesiredStack, every: Sequence[StackContainer]) -> StackContainer | None:
    """The running container of stand-ins that can start those which are missing; None when none is missing, or it has
    to be replaced."""
    if desired.endpoints is None or desired.last is None:
        return None
    spec, record = desired.endpoints
    there = next((each for each in every if each.name == spec.name and each.running), None)
    fits = there is not None and there.record.shape == record.shape and there.record.hash != record.hash
    return there if fits else None


def add_stand_ins(desired: DesiredStack, every: Sequence[StackContainer]) -> None:
    """Start new stand-ins in the container that has the others, unless that has to be replaced. Stand-ins that are no
    longer needed stay. EngineError LB412, LB421."""
    there = find_extendable(desired, every)
    if there is None or desired.endpoints is None or desired.last is None:
        return
    spec, record = desired.endpoints
    # Written first, so that no later command assigns one of these ports.
    replace(
        desired.last, stand_in_set=replace(desired.last.stand_in_set, stand_ins=desired.kept.stand_in_set.stand_ins)
    ).write()
    begun = int(time.time()) - 1
    before = _count_ready(there, begun)
    container_files.put(there.handle, {**spec.files, RECORD_FILE: container_files.File(record.text())}, root=False)
    container.signal(there.handle, "SIGHUP")
    if not wait_until(lambda: _count_ready(there, begun) > before, _READY_SECONDS):
        raise EngineError(refusal("the new stand-ins did not start"))


def _count_ready(there: StackContainer, since: int) -> int:
    with docker_errors(f"reading the log of {there.name}"):
        return bool(text := there.handle.logs(since=since)) and text.count(b"ready")
