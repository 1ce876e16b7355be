"""The docker runtime: stacks of containers. See `common.driver.Driver`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from lbgen.diagnostics import EngineError
from lbgen.runtime.common.locking import lock
from lbgen.runtime.common.ports import connections as connections
from lbgen.runtime.common.signals import defer_signals
from lbgen.runtime.docker import endpoint_rules
from lbgen.runtime.docker.client import connect
from lbgen.runtime.docker.converge import forget_stack, list_containers, remove_stack
from lbgen.runtime.docker.inspect import lines as lines
from lbgen.runtime.docker.inspect import running as running
from lbgen.runtime.docker.tier_links import attach_networks as attach_networks
from lbgen.runtime.docker.tier_links import listener_addresses as listener_addresses
from lbgen.runtime.docker.tier_links import plan_behind_front as plan_behind_front

if TYPE_CHECKING:
    from lbgen.engines.api import Engine
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.driver import ReloadOptions, Result, UpOptions
    from lbgen.runtime.common.progress import Progress
    from lbgen.runtime.common.state import StackState


def up(plan: Plan, engines: Sequence[Engine], options: UpOptions) -> Result:
    """Bring `plan` up on `engines`. See `lbgen.runtime.docker.apply.up`."""
    from lbgen.runtime.docker import apply

    return apply.up(plan, engines, options)


def reload(stack: StackState, plan: Plan, options: ReloadOptions) -> Result:
    """Have the stack's engines serve `plan` instead. See `lbgen.api.reload`."""
    from lbgen.runtime.docker import apply

    return apply.reload(stack, plan, options)


def end(stack: StackState, progress: Callable[[Progress], None]) -> None:
    """Stop and remove all containers, volumes and the network of a stack; a Ctrl-C skips the drain."""
    client = connect()
    with lock(f"docker-{stack.name}"):
        try:
            side = endpoint_rules.read(list_containers(client, stack.name, labels_only=True))
            remove_stack(client, stack.name, progress)
            if side is not None:
                endpoint_rules.unload(client, side)
        except BaseException:
            with defer_signals(forget=True), suppress(EngineError):
                forget_stack(client, stack.name)
            raise
        with defer_signals():
            forget_stack(client, stack.name)
