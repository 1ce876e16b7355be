"""The local runtime: stacks of processes. See `common.driver.Driver`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.runtime.common import logs, state
from lbgen.runtime.common.locking import lock
from lbgen.runtime.common.ports import connections as connections
from lbgen.runtime.local.tier_links import attach_networks as attach_networks
from lbgen.runtime.local.tier_links import listener_addresses as listener_addresses
from lbgen.runtime.local.tier_links import plan_behind_front as plan_behind_front

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.driver import ReloadOptions, Result, UpOptions
    from lbgen.runtime.common.logs import Line
    from lbgen.runtime.common.progress import Progress
    from lbgen.runtime.common.state import StackState


def up(plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Result:
    """Bring `plan` up on `engines`. See `lbgen.runtime.local.apply.up`."""
    from lbgen.runtime.local import apply

    return apply.up(plan, engines, options)


def reload(stack: StackState, plan: Plan, options: ReloadOptions) -> Result:
    """Have the stack's engines serve `plan` instead. See `lbgen.api.reload`."""
    from lbgen.runtime.local import apply

    return apply.reload(stack, plan, options)


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Stop a stack and remove what belongs to it, also without a supervisor; a newer stack of its name stays."""
    from lbgen.runtime.local import supervisor_process

    with lock(f"stack-{stack.name}"):
        found = state.read(stack.name)
        if found is not None and found.first == stack.first:
            supervisor_process.stop(found, progress)


def lines(stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """The output of its processes, and the requests that they logged."""
    return logs.lines(stack, engine, follow=follow)


def running(names: Collection[str] | None = None) -> tuple[StackState, ...]:
    """Every stack that has a record, also without a supervisor; with `names` those of that name."""
    found = (state.read(name) for name in state.names() if names is None or name in names)
    return tuple(each for each in found if each is not None)
