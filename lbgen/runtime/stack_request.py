"""What `up`, `reload` and `preview` are asked for: engines, runtime, tiers, and the files that a topology names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import NOWHERE, Diagnostic, DifferenceError, EngineError, LbgenError, UsageError, without_errors
from lbgen.engines.api import Engine, local_engines
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.checks import find_file_problems
from lbgen.plan.model import Plan, Protocol
from lbgen.plan.tiers import Tier, tiers
from lbgen.runtime import registry
from lbgen.runtime.common.driver import UpOptions
from lbgen.runtime.tiers.group import GroupState
from lbgen.runtime.tiers.rollout import TiersRequest, with_name
from lbgen.system_errors import to_diagnostic

if TYPE_CHECKING:
    from lbgen.spec.load import Topology


def check_runtime(runtime: str | None) -> None:
    """UsageError LB409 for an unknown one."""
    if runtime is not None and runtime not in registry.RUNTIMES:
        hint = f"one of: {', '.join(registry.RUNTIMES)}"
        raise UsageError(Diagnostic("LB409", f"unknown runtime {runtime!r}", hint=hint))


def chosen_engines(asked: Sequence[str | Engine] | None) -> list[Engine]:
    """The engines that were asked for, each once; all that are installed and run on hosts for None."""
    return list(local_engines().values()) if asked is None else _each_once(asked)


def _each_once(asked: Sequence[str | Engine]) -> list[Engine]:
    """By name, as an engine may hold what has no hash."""
    return list({each.name: each for each in map(_engine, asked)}.values())


def tiers_request(
    topology: Topology,
    name: str | None,
    replicas: Mapping[str, int] | None,
    asked: Sequence[str | Engine] | None,
    options: UpOptions,
) -> TiersRequest:
    """The request for a topology with tiers. UsageError LB305 for an unknown engine."""
    targets = tuple(_each_once(asked or ()))
    return TiersRequest(with_name(topology, name), replicas or {}, targets, options)


def usable_files(topology: Topology) -> tuple[Diagnostic, ...]:
    """Warnings about the files that `topology` names. EngineError LB211, LB427 for those that no engine could use."""
    return without_errors(find_file_problems(topology))


def select_runtime(
    name: str,
    asked: str | None,
    default: Callable[[], tuple[str, tuple[Diagnostic, ...]]],
    *,
    tiers: bool = False,
) -> tuple[str, tuple[Diagnostic, ...]]:
    """The runtime for the stack of that name: `asked`, else the one it runs on, else `default`; with warnings.

    UsageError LB406 when the stack runs on another runtime, or without tiers and the topology has `tiers`.
    """
    other = next(iter(registry.list_stacks(name)), None)
    if asked is None:
        runtime, warnings = (other.runtime, ()) if other is not None else default()
    else:
        runtime, warnings = asked, ()
    if other is not None and (other.runtime != runtime or (tiers and not isinstance(other, GroupState))):
        where = f"on the runtime {other.runtime}" if other.runtime != runtime else "without tiers"
        hint = f"lbgen down {name}, or give this one another name"
        raise UsageError(Diagnostic("LB406", f"{name} runs already, {where}", hint=hint))
    return runtime, warnings


def tiers_to_run(
    wanted: TiersRequest, runtime: str | None
) -> tuple[tuple[Diagnostic, ...], tuple[Tier, ...], str, tuple[Diagnostic, ...]]:
    """Warnings about files, the tiers, the runtime for them, and warnings about that. Raises LbgenError, UsageError
    LB305, LB406."""
    of_files = usable_files(wanted.topology)
    found = tiers(wanted.topology, wanted.replicas)
    if wanted.engines and all(tier.engine is not None for tier in found):
        message = "every tier of this topology names its engine, so none is left to choose"
        raise UsageError(Diagnostic("LB305", message, hint="leave the engines out, or drop engine: from a tier"))

    def default() -> tuple[str, tuple[Diagnostic, ...]]:
        best = [registry.default_runtime(tier.plan, backends=wanted.options.backends) for tier in found]
        return next((each for each in best if each[0] == "local"), best[0])

    runtime, fallen_back = select_runtime(wanted.topology.name, runtime, default, tiers=True)
    return of_files, found, runtime, fallen_back


def tiers_reload(topology: Topology, options: UpOptions) -> tuple[TiersRequest, str]:
    """The request by which the running tiers of that name take `topology`, and their runtime. UsageError LB406."""
    here = registry.find_stack(topology.name)
    backends = isinstance(here, GroupState) and here.group is not None and here.group.backends
    return TiersRequest(topology, {}, (), replace(options, backends=backends)), here.runtime


def _engine(asked: str | Engine) -> Engine:
    return engine_by_name(asked) if isinstance(asked, str) else asked


_KINDS = (EngineError, UsageError, DifferenceError, LbgenError)
_TAKEN = "LB404"


@contextmanager
def add_locations(plans: Sequence[Plan]) -> Iterator[None]:
    """Raises what the block raises; an LbgenError gets places from `plans`, the tiers of one topology or its only
    plan, and an OSError becomes EngineError LB408 or LB425."""
    try:
        yield
    except LbgenError as error:
        kind = next(each for each in _KINDS if isinstance(error, each))
        raise kind([_completed(each, plans) for each in error.diagnostics]) from error
    except OSError as error:
        raise EngineError(to_diagnostic(error)) from error


def _completed(found: Diagnostic, plans: Sequence[Plan]) -> Diagnostic:
    if found.code == _TAKEN and found.field:
        found = _with_holder(found, plans)
    if found.span != NOWHERE or not found.field:
        return found
    places = (plan.span(found.field) for plan in plans)
    return replace(found, span=next((each for each in places if each != NOWHERE), NOWHERE))


def _with_holder(found: Diagnostic, plans: Sequence[Plan]) -> Diagnostic:
    """Name the other stack of lbgen's that has the port of the listener, where one has it."""
    for plan in plans:
        for listener in plan.listeners:
            if not found.field.startswith(f"{listener.field}."):
                continue
            for stack in registry.list_stacks():
                for engine in stack.engines if stack.name != plan.name else ():
                    udp = listener.protocol is Protocol.UDP
                    if any(x.port == listener.port and (x.scheme == "udp") is udp for x in engine.addresses):
                        message = f"{found.message}; that is {engine.title} of the stack {stack.name}"
                        hint = f"`lbgen down {stack.name}`, or choose another port"
                        return replace(found, message=message, hint=hint)
    return found
