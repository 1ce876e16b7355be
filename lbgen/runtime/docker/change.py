"""Containers that run and what their stack shall be -> the change taken over by all of them, or by none."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.progress import Progress, Step
from lbgen.runtime.common.reload import Change, Outcome, obstacles, published_elsewhere, refusal, reload_all
from lbgen.runtime.common.signals import deferred
from lbgen.runtime.docker import container, network, wanted
from lbgen.runtime.docker.check import check
from lbgen.runtime.docker.client import told
from lbgen.runtime.docker.converge import Converger, Found, outlived, side_by_side
from lbgen.runtime.docker.labels import RECORD_FILE, Role
from lbgen.runtime.docker.live import InContainer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from docker import DockerClient

    from lbgen.runtime.docker.wanted import Part, Whole

_READY_SECONDS = 10.0
_LOOK_SECONDS = 0.05


def reloaded(
    client: DockerClient,
    made: Whole,
    there: Sequence[Found],
    progress: Callable[[Progress], None],
    seconds: float,
) -> tuple[Diagnostic, ...]:
    """Have the containers that are there serve what `made` says; warnings are returned.

    Raises EngineError LB401 (an engine's checker refuses its files), LB412 (only with other containers), LB413 (taken
    back, and why), LB429 (it serves, and an agent was not started or ended).
    """
    names = {each.name: each for each in there}
    _same_parts(made, names)
    parts = [part for part in made.parts if names[part.wanted.name].record.hash != part.record.hash]
    changes = [_change(made, part, names) for part in parts]
    _checked(client, parts, made.helper, progress)
    more_endpoints(made, there)

    def commit() -> None:
        for part, (_, live) in zip(parts, changes, strict=True):
            live.note(part.record)
        made.kept.write()

    try:
        warnings = reload_all(tuple(change for change, _ in changes), seconds=seconds, progress=progress, commit=commit)
    except BaseException:
        with deferred(forget=True):
            for change, live in changes:
                if change.outcome is Outcome.BEFORE:
                    with suppress(EngineError):  # without a note its files are read
                        live.note(live.there.record)
        raise
    with deferred(), serves_already():
        for part, (_, live) in zip(parts, changes, strict=True):
            live.taken_over()
            progress(Progress(Step.RELOADED, part.record.engine))
        _converge_agents(client, made, progress)
    return warnings


@contextmanager
def serves_already() -> Iterator[None]:
    """What fails now cannot take the change back: EngineError LB429."""
    try:
        yield
    except EngineError as error:
        message = "the change serves, but what goes with it is not done"
        told = Diagnostic("LB429", message, hint="`lbgen up` does the rest, and loses no request")
        raise EngineError((told, *error.diagnostics)) from error


def _converge_agents(client: DockerClient, made: Whole, progress: Callable[[Progress], None]) -> None:
    """Start agents that are newly needed, remove those that are no longer needed."""
    work = Converger(client, made.kept.plan.name, network.name(made.kept.plan.name), progress)
    try:
        work.converge(made.containers)
    except BaseException:
        work.undo()
        raise
    work.keep()


def check_replaced(
    client: DockerClient, made: Whole, there: Sequence[Found], progress: Callable[[Progress], None]
) -> None:
    """Nothing that runs stops for files that its engine refuses. EngineError LB401."""
    now = {each.name: each.record.hash for each in there if each.running}
    _checked(
        client, [x for x in made.parts if now.get(x.wanted.name) not in (None, x.record.hash)], made.helper, progress
    )


def _checked(client: DockerClient, parts: Sequence[Part], helper: str, progress: Callable[[Progress], None]) -> None:
    for part in parts:
        progress(Progress(Step.CHECKING, part.record.engine))
    with side_by_side() as pool:
        for part, problems in zip(parts, pool.map(lambda each: check(client, each, helper), parts), strict=True):
            if problems:
                raise EngineError(problems)
            progress(Progress(Step.CHECKED, part.record.engine))


def differs(made: Whole, there: Sequence[Found]) -> bool:
    """Whether an engine runs that shall serve something else."""
    now = {each.name: each.record.hash for each in there}
    return any(now.get(part.wanted.name, part.record.hash) != part.record.hash for part in made.parts)


def _same_parts(made: Whole, there: dict[str, Found]) -> None:
    """EngineError LB412 when other parts run than those that shall."""
    fixed = (Role.ENGINE, Role.ENDPOINTS, Role.PORTS)
    wanted_names = {each.name for each, record in made.containers if record.role in fixed}
    if wanted_names != {name for name, each in there.items() if each.record.role in fixed}:
        raise EngineError(refusal("other engines, or other backends, run"))
    if made.endpoints is not None:
        spec, _ = made.endpoints
        each = there[spec.name]
        if not each.running or each.record.shape != spec.shape():
            raise EngineError(refusal("the container of the stand-ins does not run, or would have to be another one"))


def _change(made: Whole, part: Part, there: dict[str, Found]) -> tuple[Change, InContainer]:
    """EngineError LB412 when the engine's container has to be another one."""
    each = there.get(part.wanted.name)
    title = part.record.title
    if each is None or not each.running or made.last is None:
        raise EngineError(refusal(f"{title} does not run, or another lbgen started it"))
    before = wanted.plan_for(made.last.plan, part.chosen, made.last.cast, made.subnet)
    spec = part.chosen.engine.process(before, part.binary, wanted.FOLDER)
    where = {x.listener: (x.host, x.port) for x in (*each.record.addresses, *part.record.addresses)}
    live = InContainer(
        each, before, spec, where, _running(there.get(f"{part.wanted.name}-{Role.AGENT}")), tuple(there.values())
    )
    now = part.wanted.digests()
    found = obstacles(title, (before, spec, live.digests(now)), (part.plan, part.spec, now))
    ports = there[part.ports[0].name]
    outlives = outlived(each, ports) or not ports.running
    if not found and ((each.record.shape, ports.record.hash) != (part.wanted.shape(), part.ports[1].hash) or outlives):
        found = (published_elsewhere(title, before, part.plan),)
    if found:
        raise EngineError(found)
    return Change(live, part.plan, part.spec, part.rendered, (before, spec)), live


def _running(each: Found | None) -> Found | None:
    return each if each is not None and each.running else None


def more_endpoints(made: Whole, every: Sequence[Found]) -> None:
    """Start the stand-ins that are new in the container that has the others, if it is the right one; those that are no
    longer needed stay. EngineError LB412, LB421."""
    if made.endpoints is None or made.last is None:
        return
    spec, record = made.endpoints
    there = next((each for each in every if each.name == spec.name and each.running), None)
    if there is None or there.record.shape != record.shape or there.record.hash == record.hash:
        return
    # First, so that no later command gives away a port that is taken.
    replace(made.last, cast=replace(made.last.cast, stand_ins=made.kept.cast.stand_ins)).write()
    begun = int(time.time()) - 1
    before = _said_ready(there, begun)
    container.put(there.made, {**spec.files, RECORD_FILE: container.File(record.text())}, root=False)
    container.signal(there.made, "SIGHUP")
    end = time.monotonic() + _READY_SECONDS
    while _said_ready(there, begun) <= before:
        if time.monotonic() > end:
            raise EngineError(refusal("the new stand-ins did not start"))
        time.sleep(_LOOK_SECONDS)


def _said_ready(there: Found, since: int) -> int:
    with told(f"reading the log of {there.name}"):
        return bool(text := there.made.logs(since=since)) and text.count(b"ready")
