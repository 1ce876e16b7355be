"""The local runtime: stacks of processes. See `common.driver.Driver`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec.structs import replace

from lbgen.diagnostics import EngineError, LbgenError
from lbgen.engines.api import Engine
from lbgen.plan.model import Plan
from lbgen.runtime.common import logs, ports, selection, state
from lbgen.runtime.common.driver import Progress, ReloadOptions, Result, Step, UpOptions
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.ports import connections as connections
from lbgen.runtime.common.processes import defer_signals
from lbgen.runtime.common.state import StackState, lock
from lbgen.runtime.local import stack_processes, supervisor_client
from lbgen.runtime.local.decide import (
    is_serving,
    is_up_to_date,
    needs_supervisor,
    reload_request,
    request_for,
    with_certificates,
)
from lbgen.runtime.local.messages import EngineChoice, ReloadRequest, StartRequest, Success
from lbgen.runtime.local.preview import preview_reload as preview_reload
from lbgen.runtime.local.preview import preview_up as preview_up
from lbgen.runtime.standins.plan import describe_pools


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Stop a stack and remove what belongs to it, also without a supervisor; a newer stack of its name stays."""
    with lock(f"stack-{stack.name}"):
        found = state.read(stack.name)
        if found is not None and found.first == stack.first:
            supervisor_client.stop(found, progress)


def lines(stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """The output of its processes, and the requests that they logged."""
    return logs.lines(stack, engine, follow=follow)


def running(names: Collection[str] | None = None) -> tuple[StackState, ...]:
    """Every stack that has a record, also without a supervisor; with `names` those of that name."""
    found = (state.read(name) for name in state.names() if names is None or name in names)
    return tuple(each for each in found if each is not None)


def up(plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Result:
    """Bring `plan` up on `engines`. An engine that needs root is skipped in any case while another one can run. Nothing
    drains: processes of one host cannot listen beside each other.

    Raises LbgenError (verdicts), EngineError LB402 to LB405, LB407, LB408.
    """
    progress = options.progress
    wanted, skipped = request_for(plan, engines, options)
    if wanted.plan.pools:
        progress(Progress(Step.POOLS, detail=describe_pools(wanted.plan)))
    with lock(f"stack-{plan.name}"):
        before, kept = state.read(plan.name), None
        replaced = False
        if before is not None:
            before = _ensure_supervisor(before, progress)
            if is_up_to_date(before, wanted.digest):
                return Result(before, skipped, unchanged=True)
            taken_over = _try_reload(before, wanted, progress)
            if taken_over is not None:
                return Result(taken_over.state, skipped, taken_over.warnings, reloaded=True)
            replaced = before.supervisor.alive()
            if replaced:
                progress(Progress(Step.REPLACING, detail=f"{plan.name} has changed; stopping what runs first"))
                kept = stack_processes.read_saved(state.folder(plan.name))
            supervisor_client.stop(before)
        try:
            with lock("ports"):
                wanted = replace(wanted, engines=_assign_offsets(wanted.plan, wanted.engines))
            done = supervisor_client.start(wanted, progress)
        except (LbgenError, KeyboardInterrupt) as error:
            if kept is not None:
                _restart_previous(kept.request, error)
            raise
        return Result(done.state, skipped, done.warnings, replaced=replaced)


def _restart_previous(before: StartRequest, error: BaseException) -> None:
    """Restart the stack that was stopped for a start that failed. EngineError with both reasons if that fails too."""
    with defer_signals():
        try:
            supervisor_client.start(before, lambda step: None)
        except LbgenError as second:
            first = error.diagnostics if isinstance(error, LbgenError) else ()
            raise EngineError((*first, *second.diagnostics)) from None


def reload(stack: StackState, plan: Plan, options: ReloadOptions) -> Result:
    """Have the stack's engines serve `plan` instead. See `lbgen.api.reload`."""
    with lock(f"stack-{stack.name}"):
        before = state.read(stack.name)
        if before is not None:
            _ensure_supervisor(before, options.progress, strict=True)
        request = ReloadRequest(with_certificates(plan), options.accept, options.seconds)
        done = supervisor_client.request_reload(stack.name, request, options.progress)
    return Result(done.state, (), done.warnings)


def _ensure_supervisor(before: StackState, progress: Callable[[Progress], None], *, strict: bool = False) -> StackState:
    """The stack, with a new supervisor if its own has ended and engines still serve. A failure to start one is raised
    only with `strict`."""
    if not needs_supervisor(before):
        return before
    try:
        done = supervisor_client.take_over(before, progress)
    except EngineError:
        if strict:
            raise
        return before
    return done.state


def _try_reload(before: StackState, wanted: StartRequest, progress: Callable[[Progress], None]) -> Success | None:
    """Reload what runs; None when the change needs a restart. Raises as `reload` does."""
    if not is_serving(before):
        return None
    try:
        return supervisor_client.request_reload(before.name, reload_request(wanted), progress)
    except EngineError as error:
        if any(each.code != "LB412" for each in error.diagnostics):
            raise
        return None


def _assign_offsets(plan: Plan, chosen: tuple[EngineChoice, ...]) -> tuple[EngineChoice, ...]:
    """Assign port offsets to engines that share this host's network."""
    on_host = [(each.name, each.title) for each in chosen if not each.kernel]
    found = selection.offsets(plan, on_host, {}, (), lambda listener: listener.address)
    return tuple(replace(each, offset=found.get(each.name, 0)) for each in chosen)


_LOOPBACK = "127.0.0.1"


def plan_behind_front(plan: Plan, before: StackState | None) -> Plan:
    """`plan` on loopback, on the ports it had in `before`, else on free ones."""
    had = {} if before is None else {name: port for name, (_, port) in listener_addresses(before).items()}
    moved = ports.on_ports(plan, had)
    return replace(moved, listeners=tuple(replace(x, address=_LOOPBACK) for x in moved.listeners))


def listener_addresses(state: StackState) -> dict[str, tuple[str, int]]:
    """(address, port) by listener, for this host and for the tier in front."""
    return {each.listener: (each.host, each.port) for engine in state.engines for each in engine.addresses}


def attach_networks(front: StackState, behind: Sequence[StackState]) -> None:
    """Nothing to do: all of them share this host's loopback."""
