"""Messages to and from the worker process that verifies one engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.conformance.runner import Result
    from lbgen.conformance.verify.cases import ScheduledCase
    from lbgen.diagnostics import Diagnostic
    from lbgen.engines.api import Binary
    from lbgen.engines.rendered import Rendered
    from lbgen.plan.model import Plan

ComparedAnswer = tuple[int | None, str, str, str]  # status, location, pool, what the endpoint was asked for


@dataclass(frozen=True, slots=True)
class FrontTier:
    """A tier in front of the one to verify: `engine` serves `plan`, whose listener `door` leads to the `replicas`."""

    engine: str
    version: str
    binary: Binary
    plan: Plan
    listener: str
    replicas: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """`plan` is the one to verify: scaled times, and without a network of its own other ports and endpoints.

    `rendered` are files to serve as they stand. `isolated`: in a network where every address is here. `folder` holds
    the certificates of stand-ins and clients. `before`: requests go through another tier, and `plan` is what
    clients meet there. `own_ports`: the topology's port by the port that a listener has instead.
    """

    engine: str
    version: str
    binary: Binary
    plan: Plan
    cases: tuple[ScheduledCase, ...]
    rendered: Rendered | None = None
    isolated: bool = True
    folder: str = ""
    front: FrontTier | None = None
    own_ports: Mapping[int, int] = field(default_factory=dict)
    label: str = ""  # engine and version, where another version of the engine is verified beside it

    @property
    def name(self) -> str:
        """What reports call the engine."""
        return self.label or self.engine


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress: so many of an engine's cases are done."""

    engine: str
    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """All results of an engine; `prints` by case id are what the engines are compared by among themselves."""

    engine: str
    results: tuple[Result, ...]
    answers: dict[str, ComparedAnswer] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """The engine could not be verified."""

    engine: str
    diagnostics: tuple[Diagnostic, ...]
