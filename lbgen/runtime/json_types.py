"""Types of the JSON about running stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NotRequired

from lbgen.json_types import AccessRecord, FindingRecord, Record
from lbgen.runtime.common.health import EndpointHealth


@dataclass(frozen=True, slots=True)
class SwapResult:
    """What clients of our own saw while engine `after` took the place of `before`: `requests` of them that `failed`
    (`first` says how), the longest time in which new connections failed, and `dropped` of `sockets` (WebSockets, TCP
    streams) that they held open. `cut`: connections of `before` that were still open when its time was over.
    `verified` says what was compared first."""

    before: str
    after: str
    requests: int
    failed: int
    first: str
    gap_ms: int
    sockets: int
    dropped: int
    cut: int
    verified: str = ""


class EngineRecord(Record):
    """One engine of a stack."""

    name: str
    version: str
    binary: str
    """The executable, or the image."""
    pid: int
    """0: not started."""
    running: bool
    ended: str
    """How it ended; empty while it runs."""
    restarts: int
    died: str
    """How it ended before it was last restarted."""
    log: str
    """The file of its output."""
    metrics: str
    """Where its metrics are served; empty without `metrics` in the topology."""
    urls: dict[str, str]
    """By listener: http, https, tcp or udp."""
    health: list[EndpointHealth]


class StandInRecord(Record):
    """A stand-in for an endpoint."""

    name: str
    """The field of the endpoint, such as pools.web.endpoints[0]."""
    pool: str
    host: str
    port: int


class MemberRecord(Record):
    """A replica of a tier."""

    name: str
    tier: str
    replica: int
    engine: str
    stack: str


class StackRecord(Record):
    """A stack, and what the command did with it."""

    name: str
    runtime: str
    foreign_owner: str
    """The other state directory that owns it; empty: this one."""
    alive: bool
    """Whether its supervisor, or one of its containers, lives."""
    unchanged: bool
    """It ran the same already."""
    replaced: bool
    """It was replaced by a new start."""
    reloaded: bool
    """It took over the change without a restart."""
    swapped: SwapResult | None
    engines: list[EngineRecord]
    tiers: NotRequired[list[MemberRecord]]
    """Only of a topology with tiers."""
    endpoints: list[StandInRecord]
    """The stand-ins; empty where the topology's own endpoints serve."""
    skipped: dict[str, list[FindingRecord]]
    """By engine that was left out: why."""
    warnings: list[FindingRecord]


class OutputLine(Record):
    """A line that a process of a stack printed."""

    source: str
    """The engine; with -agent its agent; lbgen is the supervisor."""
    text: str


class RequestLine(Record):
    """A line of the access log."""

    source: str
    record: AccessRecord


class EngineAccessRecord(AccessRecord):
    """A request in the access log of an engine."""

    engine: str


class BuiltImageRecord(Record):
    """An image that was built."""

    engine: str
    version: str
    reference: str
    source: str
    """What it was built from."""
    bytes: int
    """The size of its archive."""
