"""The functions behind `lbgen ps`, `logs`, `stats` and `down`: what is done with stacks that run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.runtime import registry
from lbgen.runtime.common import logs as log_files
from lbgen.runtime.common.driver import Progress, no_progress
from lbgen.runtime.common.logs import Line, RequestFilter
from lbgen.runtime.results import Stack

ANY_REQUEST = log_files.RequestFilter()


def ps(name: str | None = None) -> tuple[Stack, ...]:
    """Every stack, also those of other state directories (`Stack.foreign_owner`), or the one of that name; `warnings`
    say which certificates could not be obtained (LB435). UsageError LB406 when there is none."""
    found = [Stack(each) for each in (registry.list_stacks() if name is None else (registry.find_stack(name),))]
    return tuple(replace(each, warnings=each.certificate_findings) for each in found)


def logs(name: str | None = None, engine: str | None = None, *, follow: bool = False) -> Iterator[Line]:
    """What a stack's processes printed and the requests that its engines logged (`Line.record`).

    `name` None = the only stack of this state directory, `engine` one of it, `follow` until it ends. Raises UsageError
    LB406 when there is no such stack or engine.
    """
    found = registry.find_stack(name)
    if engine is not None and engine not in {each.name for each in found.engines}:
        hint = f"one of: {', '.join(each.name for each in found.engines)}"
        raise UsageError(Diagnostic("LB406", f"{engine} is not part of {found.name}", hint=hint))
    return registry.lines(found, engine, follow=follow)


def requests(
    name: str | None = None, engine: str | None = None, wanted: RequestFilter = ANY_REQUEST, *, follow: bool = False
) -> Iterator[Line]:
    """The access log of a stack: those of `logs` that are requests. Of several engines they are in the order of time,
    unless they come with `follow`."""
    several = engine is None and len(registry.find_stack(name).engines) > 1
    return log_files.requests(logs(name, engine, follow=follow), wanted, sort=several and not follow)


def down(name: str | None = None, *, progress: Callable[[Progress], None] = no_progress) -> Stack:
    """Stop a stack (None = the only one of this state directory) and remove all that was its own, also where that is no
    container any more; returns what it was. UsageError LB406."""
    try:
        found = registry.find_stack(name)
    except UsageError:
        left = registry.find_leftovers(name)
        if left is None:
            raise
        found = left
    registry.remove_stack(found, progress)
    return Stack(found)
