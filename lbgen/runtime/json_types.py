"""Types of the JSON about running stacks."""

from __future__ import annotations

from typing import Annotated, NotRequired

from msgspec import Meta, Struct

from lbgen.json_types import FindingRecord, Record
from lbgen.runtime.common.health import EndpointHealth


class SwapResult(Struct, frozen=True):
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
    binary: Annotated[str, Meta(description="The executable, or the image.")]
    pid: Annotated[int, Meta(description="0: not started.")]
    running: bool
    ended: Annotated[str, Meta(description="How it ended; empty while it runs.")]
    restarts: int
    died: Annotated[str, Meta(description="How it ended before it was last restarted.")]
    log: Annotated[str, Meta(description="The file of its output.")]
    metrics: Annotated[str, Meta(description="Where its metrics are served; empty without `metrics` in the topology.")]
    urls: Annotated[dict[str, str], Meta(description="By listener: http, https, tcp or udp.")]
    health: list[EndpointHealth]


class CertificateRecord(Record):
    """A certificate that the agent keeps."""

    name: Annotated[str, Meta(description="The listener, or the first of several.")]
    domains: list[str]
    issued: Annotated[bool, Meta(description="False: clients see a self-signed one.")]
    expires: Annotated[float | None, Meta(description="Seconds of the epoch.")]
    renewal: Annotated[float | None, Meta(description="When it is ordered again; seconds of the epoch.")]
    failures: Annotated[int, Meta(description="Orders that failed in a row.")]
    failure: Annotated[str, Meta(description="Why the last order failed; empty after one that did not.")]
    retry: Annotated[float | None, Meta(description="When the next order is tried; seconds of the epoch.")]


class StandInRecord(Record):
    """A stand-in for an endpoint."""

    name: Annotated[str, Meta(description="The field of the endpoint, such as pools.web.endpoints[0].")]
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
    foreign_owner: Annotated[str, Meta(description="The other state directory that owns it; empty: this one.")]
    alive: Annotated[bool, Meta(description="Whether its supervisor, or one of its containers, lives.")]
    unchanged: Annotated[bool, Meta(description="It ran the same already.")]
    replaced: Annotated[bool, Meta(description="It was replaced by a new start.")]
    reloaded: Annotated[bool, Meta(description="It took over the change without a restart.")]
    swapped: SwapResult | None
    engines: list[EngineRecord]
    tiers: NotRequired[Annotated[list[MemberRecord], Meta(description="Only of a topology with tiers.")]]
    endpoints: Annotated[
        list[StandInRecord], Meta(description="The stand-ins; empty where the topology's own endpoints serve.")
    ]
    certificates: Annotated[list[CertificateRecord], Meta(description="Those from ACME authorities.")]
    skipped: Annotated[dict[str, list[FindingRecord]], Meta(description="By engine that was left out: why.")]
    warnings: list[FindingRecord]
