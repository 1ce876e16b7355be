"""A running stack -> the same with another engine at the ports of one, while clients of ours watch what they lose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.overlay import with_real_endpoints
from lbgen.records import replace
from lbgen.runtime import registry
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.loss_probe import count_losses
from lbgen.runtime.docker import network
from lbgen.runtime.docker import stack as containers
from lbgen.runtime.docker.client import connect
from lbgen.runtime.json_types import SwapResult
from lbgen.runtime.results import Stack

if TYPE_CHECKING:
    from lbgen.plan.model import Plan
    from lbgen.runtime.common.driver import UpOptions
    from lbgen.runtime.common.loss_probe import LossCounter
    from lbgen.runtime.common.state import EngineState, StackState


class Proof(Protocol):
    """Whether two engines behave the same."""

    def __call__(
        self, plan: Plan, both: tuple[str, str], accept: tuple[str, ...], progress: Callable[[Progress], None]
    ) -> str:
        """What was compared. DifferenceError LB414 with the first difference, EngineError LB403: one did not run."""
        ...


def verify_and_swap(
    plan: Plan, asked: Sequence[str], new: str, runtime: str | None, how: UpOptions, proof: Proof | None
) -> Stack:
    """Let `new` take the place of the engine that was asked for, or of the only one, once `proof` found no difference.

    Raises as `engine_to_replace`, `proof` and `swap`.
    """
    if len(asked) > 1:
        raise UsageError(Diagnostic("LB415", "one engine is exchanged at a time", hint="name one with -e"))
    stack, old = engine_to_replace(plan, new, asked[0] if asked else None, runtime)
    verified = "" if proof is None else proof(plan, (old.name, new), how.accept, how.progress)
    made = swap(plan, stack, old, new, how)
    return replace(made, swapped=None if made.swapped is None else replace(made.swapped, verified=verified))


def engine_to_replace(plan: Plan, new: str, old: str | None, runtime: str | None) -> tuple[StackState, EngineState]:
    """The stack of that plan and the engine of it that `new` shall replace: `old`, or the only one.

    Raises UsageError LB406 (no such stack), LB415 (it cannot be done there).
    """
    stack = registry.find_stack(plan.name)
    if runtime not in (None, stack.runtime):
        raise UsageError(Diagnostic("LB406", f"{stack.name} runs already, on the runtime {stack.runtime}"))
    if stack.runtime != "docker":
        message = "processes of this host have no network of their own in which connections could be switched"
        hint = "swap in containers (--runtime docker), or stop one engine and start the other: lbgen down, lbgen up -e"
        raise UsageError(Diagnostic("LB415", message, hint=hint))
    names = [each.name for each in stack.engines]
    if new in names:
        raise UsageError(Diagnostic("LB415", f"{new} runs in {stack.name} already", hint=f"lbgen ps {stack.name}"))
    if old is None and len(names) != 1:
        hint = f"say which one: -e {' or -e '.join(names)}"
        raise UsageError(Diagnostic("LB415", f"{len(names)} engines run in {stack.name}", hint=hint))
    if old is not None and old not in names:
        hint = f"one of: {', '.join(names)}"
        raise UsageError(Diagnostic("LB415", f"{old} does not run in {stack.name}", hint=hint))
    return stack, next(each for each in stack.engines if old in (None, each.name))


def swap(plan: Plan, stack: StackState, old: EngineState, new: str, how: UpOptions) -> Stack:
    """Let `new` serve `plan` at the ports of `old`. EngineError LB413 when it does not, and `old` serves on."""
    names = [new if each.name == old.name else each.name for each in stack.engines]
    where = {each.listener: (each.host, each.port) for each in old.addresses}
    client = network.gateway(network.ensure(connect(), stack.name))
    with count_losses(plan if how.backends else with_real_endpoints(plan), where.__getitem__, client) as seen:

        def report(step: Progress) -> None:
            if step.step is Step.DRAINING:
                seen.close_sockets_soon()
            how.progress(step)

        try:
            engines = [engine_by_name(name) for name in names]
            result = containers.up(plan, engines, replace(how, progress=report, insist=True), {new: old.name})
        except EngineError as error:
            first = Diagnostic(
                "LB413", f"{new} does not serve in place of {old.name}, which serves on; {describe_losses(seen)}"
            )
            raise EngineError((first, *error.diagnostics)) from error
    swapped = SwapResult(
        before=old.name,
        after=new,
        requests=seen.requests,
        failed=seen.failed,
        first=seen.first,
        gap_ms=seen.gap_ms,
        sockets=seen.sockets,
        dropped=seen.dropped,
        cut=result.cut,
    )
    return replace(Stack.of(result), swapped=swapped)


def describe_losses(seen: LossCounter) -> str:
    """In words."""
    return f"{seen.failed} of {seen.requests} requests failed meanwhile"
