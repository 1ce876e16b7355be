"""Errors of a runtime -> the same with file, line and column of the fields that they are about, and with the stack that
holds a port."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from lbgen.diagnostics import NOWHERE, Diagnostic, DifferenceError, EngineError, LbgenError, UsageError
from lbgen.plan.model import Plan, Protocol
from lbgen.records import replace
from lbgen.runtime import registry
from lbgen.system_errors import to_diagnostic

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
