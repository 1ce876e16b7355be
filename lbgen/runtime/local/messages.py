"""Messages between commands and the supervisor of a stack."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.api import Binary, Engine
from lbgen.engines.api import engine as engine_by_name
from lbgen.plan.model import Plan  # noqa: TC001  # read at run time by saved

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.runtime.common.state import StackState


class EngineChoice(Struct, frozen=True):
    """An engine of the stack with its version and executable. `supplied`: the engine itself if it is not installed."""

    name: str
    title: str
    version: str
    binary: Binary
    kernel: bool
    resolvers: tuple[str, ...]  # DNS servers for it
    offset: int = 0  # added to every listener's port
    supplied: Engine | None = None

    @property
    def engine(self) -> Engine:
        return self.supplied if self.supplied is not None else engine_by_name(self.name)


class StartRequest(Struct, frozen=True):
    """To a new supervisor: bring a stack up. `folder` is the stack's in the state directory."""

    name: str
    digest: str
    folder: str
    plan: Plan
    engines: tuple[EngineChoice, ...]
    accept: tuple[str, ...]
    backends: bool
    seconds: float  # to wait for listeners, and again for routes


class ReloadRequest(Struct, frozen=True):
    """To the supervisor of a running stack: serve `plan` instead.

    `engines` (name, version, executable) and `backends` are what the stack must be made of; None = whatever it is, and
    then `accept` comes on top of what was accepted before.
    """

    plan: Plan
    accept: tuple[str, ...]
    seconds: float
    engines: tuple[tuple[str, str, Binary], ...] | None = None
    backends: bool | None = None


class TakeoverRequest(Struct, frozen=True):
    """To a new supervisor: take over the stack of that name, whose supervisor has ended. `folder` and `seconds` as in
    `StartRequest` and `ReloadRequest`."""

    name: str
    folder: str
    seconds: float


class Success(Struct, frozen=True):
    """From the supervisor: the request is done. `warnings` are LB405 of routes that cannot be verified."""

    state: StackState
    warnings: tuple[Diagnostic, ...]


class Failure(Struct, frozen=True):
    """From the supervisor: the request failed, and the previous state is restored. `exit_code`: the kind of error."""

    diagnostics: tuple[Diagnostic, ...]
    exit_code: int


def digest(plan: Plan, chosen: tuple[EngineChoice, ...], accept: tuple[str, ...], *, backends: bool) -> str:
    """A digest of what the stack serves and runs, without positions in the topology file."""
    served = [(each.name, getattr(plan, each.name)) for each in fields(plan) if each.repr and each.name != "uses"]
    what = (served, tuple((x.name, x.version, x.binary) for x in chosen), accept, backends)
    return hashlib.sha256(repr(what).encode()).hexdigest()


class CommitRequest(Struct, frozen=True):
    """To the supervisor: continue without the command that started it."""
