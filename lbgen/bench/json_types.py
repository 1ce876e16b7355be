"""Types of the JSON that `lbgen bench` prints."""

from __future__ import annotations

from typing import Literal

from lbgen.json_types import FindingRecord, Record


class SpreadRecord(Record):
    """A figure over all rounds."""

    median: float
    low: float
    """The least round."""
    high: float
    """The greatest round."""
    rounds: list[float]
    """The figure of each round, in order."""


class BenchRowRecord(Record):
    """One subject under one shape of load."""

    subject: str
    """An engine, or `direct`: the endpoint without an engine before it."""
    connections: int
    """Open at a time; at most, at a constant rate."""
    streams: int
    """Requests at a time on each HTTP/2 connection. 0: HTTP/1.1."""
    keep_alive: bool
    """false: each connection has one request."""
    loop: Literal["closed", "constant rate"]
    """closed: a connection sends its next request after the answer, so that a slow engine gets fewer requests. constant
    rate: requests are due by a clock, and latency counts from then."""
    rate: int | None
    """Requests per second that were due. null: closed loop."""
    generator: str
    """With its version."""
    command: str
    """Its command line, with the listener's own port."""
    requests_per_second: SpreadRecord
    cpu_us_per_request: SpreadRecord | None
    """User and system time of the engine's processes, in microseconds; of one that forwards in the kernel, interrupts
    beyond those of direct. null: direct, or not measurable here."""
    p50_ms: SpreadRecord
    p95_ms: SpreadRecord | None
    """null: the generator of the closed loop does not say."""
    p99_ms: SpreadRecord
    p999_ms: SpreadRecord | None
    """The 99.9th percentile. null: the generator of the closed loop does not say."""
    p50_over_direct_ms: SpreadRecord | None
    """p50 above that of direct in the same round. null: direct."""
    peak_memory_mib: float | None
    """The largest sum of PSS that was seen. null: direct."""
    requests: int
    """Of all rounds."""
    errors: int
    """Connections that failed, and requests without an answer in time."""
    not_2xx_3xx: int
    """Answers with another status."""


class MeasuredEngineRecord(Record):
    """An engine that was measured."""

    engine: str
    version: str
    verified_cases: int
    """How many cases it passed before it was measured."""


class UnmeasuredEngineRecord(Record):
    """An engine that was not measured."""

    engine: str
    why: Literal["left out", "differs", "failed"]
    """left out: it cannot serve the topology here. differs, failed: the verification before the load."""
    reasons: list[FindingRecord]


class LoadRecord(Record):
    """What was sent."""

    listener: str
    route: str
    target: str
    """Path and query."""
    tls: bool
    headers: list[tuple[str, str]]
    body_bytes: int
    """Of each answer."""
    seconds: int
    """Of each round."""
    rounds: int
    delays: dict[str, float]
    """By endpoint the seconds after which it answers."""


class BenchRecord(Record):
    """What a benchmark measured."""

    name: str
    lbgen: str
    """Its version."""
    system: str
    cores: int
    cpu: str
    """The processor."""
    load: LoadRecord
    engines: list[MeasuredEngineRecord]
    not_measured: list[UnmeasuredEngineRecord]
    rows: list[BenchRowRecord]
    notes: list[str]
    """What limits the figures, in sentences."""
    configurations: dict[str, dict[str, str]]
    """By engine and name the files that were rendered, with the topology's own ports."""


class FeatureCostRecord(Record):
    """What a feature adds, by round."""

    feature: str
    """A field of the topology, `other routes`, or `layer 7`."""
    cpu_us_per_request: SpreadRecord
    cpu_interval: tuple[float, float]
    """Where the mean is with a confidence of 99.9 %."""
    cpu_measurable: bool
    """false: no more than what the machine does by itself."""
    p50_ms: SpreadRecord
    p50_interval: tuple[float, float]
    p50_measurable: bool


class EngineCostRecord(Record):
    """An engine: the figures of the whole topology, and what each feature of it adds."""

    engine: str
    version: str
    rate: int
    """Requests per second."""
    cpu_us_per_request: SpreadRecord
    p50_ms: SpreadRecord
    features: list[FeatureCostRecord]
    failed: dict[str, str]
    """By feature: why the engine did not run without it."""


class CostRecord(Record):
    """What the features of a topology cost."""

    name: str
    cores: int
    route: str
    target: str
    """Path and query."""
    seconds: int
    """Of each round."""
    rounds: int
    costs: list[EngineCostRecord]
    not_measured: list[UnmeasuredEngineRecord]


class FaultBucketRecord(Record):
    """Half a second of a drill."""

    second: float
    """When it begins."""
    answered_per_second: float
    """Good answers that came in it."""
    failed: int
    """Of the requests that were due in it."""
    p99_ms: float | None
    """Of the requests that were due in it. null: none was."""


class FaultRecord(Record):
    """One fault on one engine."""

    engine: str
    fault: str
    """slow, reset, freeze, flap, 503, slow-clients, reload or kill."""
    begin: float
    """When the fault began, in seconds of the timeline."""
    end: float
    requests: int
    failed: int
    """Without an answer, or with one that is neither 2xx nor 3xx."""
    may_fail: int
    """As many as the topology's times, retries and health checks allow."""
    slowest_ms: float
    slowest_may_be_ms: float | None
    """With what the machine adds. null: no bound."""
    why: str
    """What the topology allows, in a sentence."""
    excesses: list[str]
    """What it does not allow, in sentences."""
    detail: str
    timeline: list[FaultBucketRecord]
    reasons: list[FindingRecord]
    """Why there are no requests."""


class FaultsRecord(Record):
    """What clients saw while endpoints, clients or the engine itself failed."""

    name: str
    lbgen: str
    """Its version."""
    system: str
    cores: int
    cpu: str
    """The processor."""
    route: str
    target: str
    """Path and query."""
    rate: int
    """Requests per second."""
    seconds: float
    """Of each timeline."""
    engines: list[MeasuredEngineRecord]
    not_measured: list[UnmeasuredEngineRecord]
    faults: list[FaultRecord]


class ChangeRecord(Record):
    """A figure whose rounds are all on one side of those before, and whose median is more than 10 % away."""

    subject: str
    load: str
    """The shape of the load."""
    figure: str
    """With its unit."""
    before: float
    after: float
    better: bool


class BenchComparisonRecord(Record):
    """What changed between two benchmarks."""

    changes: list[ChangeRecord]
    notes: list[str]
    """What else differs, in sentences."""
    compared_rows: int
