"""`up`, `preview`, `ps`, `logs` and `down` of stacks on orchestrators, which are contacted only where this state
directory has a record of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.runtime.common.driver import GroupDecision, Progress, Result, Step, no_progress
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.state import StackState, lock
from lbgen.runtime.orchestrators import kubernetes, model, swarm
from lbgen.runtime.orchestrators.model import Deployment, Options, OrchestratedStack, Orchestrator, Record

ORCHESTRATORS: dict[str, Orchestrator] = {"swarm": swarm, "kubernetes": kubernetes}


def selected(name: str, asked: str | None) -> str | None:
    """The orchestrator for the stack of that name: `asked`, else the one it runs on. None: another runtime."""
    if asked is not None:
        return asked if asked in ORCHESTRATORS else None
    record = model.read(name)
    return None if record is None else record.runtime


def up(wanted: Deployment, options: Options) -> Result:
    """Run it, and return when all of it is ready; a failure leaves what was. Raises as `Orchestrator.up`."""
    on, name = ORCHESTRATORS[wanted.record.runtime], wanted.record.name
    with lock(f"orchestrated-{name}"):
        wanted, before = _placed(wanted)
        options.progress(Progress(Step.TARGET, detail=wanted.record.where))
        model.write(wanted.record if before is None else _both(before, wanted.record))
        try:
            changed = on.up(wanted, options)
        except BaseException:
            if before is None:
                on.end(wanted.record, no_progress)
                model.remove(name)
            else:
                model.write(before)
            raise
        model.write(wanted.record)
        model.write_plans(name, wanted.tiers)
    replaced = changed and before is not None
    return Result(on.state(wanted.record), warnings=wanted.findings, unchanged=not changed, replaced=replaced)


def preview(wanted: Deployment) -> GroupDecision:
    """What `up` would do. Raises as it does before it changes anything."""
    wanted, _ = _placed(wanted)
    parts = ORCHESTRATORS[wanted.record.runtime].preview(wanted)
    return GroupDecision(parts, model.read_plans(wanted.record.name), wanted.tiers, warnings=wanted.findings)


def _placed(wanted: Deployment) -> tuple[Deployment, Record | None]:
    """`wanted` with the place that it goes to, and the record of what runs. UsageError LB406 if that is elsewhere."""
    record = replace(wanted.record, context=ORCHESTRATORS[wanted.record.runtime].context(wanted.record))
    before = model.read(record.name)
    if before is not None and before.where != record.where:
        message = f"{record.name} runs already, on {before.where}; commands go to {record.where} now"
        raise UsageError(Diagnostic("LB406", message, hint=f"go back there, or give this one another name: {_NAME}"))
    return replace(wanted, record=record), before


_NAME = "`name:` in the topology"


def _both(before: Record, after: Record) -> Record:
    """While one takes the place of the other, with the services of both, so that `down` finds all."""
    names = {each.name for each in after.services}
    return replace(after, services=(*after.services, *(x for x in before.services if x.name not in names)))


def running(names: Collection[str] | None = None) -> tuple[StackState, ...]:
    """The stacks that this state directory has a record of; with `names` those of that name."""
    records = [each for each in model.list_records() if names is None or each.name in names]
    return tuple(ORCHESTRATORS[each.runtime].state(each) for each in records)


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Remove a stack and its record."""
    assert isinstance(stack, OrchestratedStack)  # noqa: S101  # as `running` returned it
    with lock(f"orchestrated-{stack.name}"):
        ORCHESTRATORS[stack.runtime].end(stack.record, progress)
        model.remove(stack.name)


def lines(stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """The output of a stack's tasks and the requests that they logged."""
    assert isinstance(stack, OrchestratedStack)  # noqa: S101  # as `running` returned it
    return ORCHESTRATORS[stack.runtime].lines(stack.record, engine, follow=follow)
