"""Types of the JSON about differences: between topologies, and between engines."""

from __future__ import annotations

from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.edited_files import LineChange
from lbgen.json_types import FindingRecord, Record
from lbgen.runtime.common.driver import Action, Kind


class ChangedAnswerRecord(Record):
    """A request that is answered differently, the smallest of its kind."""

    listener: str
    method: str
    target: str
    headers: list[tuple[str, str]]
    curl: str
    """The request as a curl line."""
    routes: tuple[str, str]
    """The route before and after; empty where none serves it."""
    before: str
    """What happens to it, in words."""
    after: str
    requests: int
    """How many requests change in the same way."""


class FieldChangeRecord(Record):
    """A field whose change no single request shows."""

    field: str
    before: str
    """Empty where the object is not there."""
    after: str
    meaning: str


class ComparisonRecord(Record):
    """What changes between two topologies."""

    same: bool
    asked: int
    """The number of requests that were compared."""
    requests: list[ChangedAnswerRecord]
    fields: list[FieldChangeRecord]


class PartChangeRecord(Record):
    """What would happen to one part of a stack."""

    kind: Kind
    name: str
    """The engine that it is or belongs to, or a replica such as web-1; empty for the stand-ins of a stack."""
    action: Action
    reason: str
    """Why not less happens; may be empty."""


class PreviewRecord(Record):
    """What up or reload would do to what runs now."""

    name: str
    runtime: str
    changes: bool
    """Whether anything would be created, changed or removed."""
    interrupts: bool
    """Whether requests would be refused or cut meanwhile."""
    parts: list[PartChangeRecord]
    compared: ComparisonRecord | None
    """null: nothing runs, or another lbgen started it."""
    skipped: dict[str, list[FindingRecord]]
    """By engine that would be left out: why."""
    warnings: list[FindingRecord]


class ScaledTimeRecord(Record):
    """A time that was shortened."""

    real_ms: int
    verified_ms: int


class VerifiedEngineRecord(Record):
    """An engine that was verified."""

    name: str
    version: str
    changed: list[LineChange]
    """Lines that differ from the topology's own files, all of them in times."""
    edits: list[str]
    """Where the files of --rendered are not as lbgen renders them."""


class UnverifiedEngineRecord(Record):
    """An engine that was not verified."""

    engine: str
    broken: bool
    """It failed; else it was left out."""
    reasons: list[FindingRecord]


class ResultRecord(Record):
    """One case on one engine."""

    engine: str
    case: str
    clause: str
    """Of docs/contract.md, or `engines agree`."""
    state: CaseState
    detail: str


class ReportRecord(Record):
    """What a verification found."""

    name: str
    green: bool
    """No difference that no verdict declares, and no engine failed."""
    seconds: float
    own_addresses: bool
    """Listeners and endpoints had the topology's own addresses."""
    moved_because: str
    """Why they had not; empty where they had."""
    time_factor: float
    """By how much the longest time was shortened."""
    times: list[ScaledTimeRecord]
    totals: dict[str, dict[str, int]]
    """By engine, and by state: the number of cases."""
    not_tried: list[str]
    engines: list[VerifiedEngineRecord]
    left_out: list[UnverifiedEngineRecord]
    differences: list[Result]
    results: list[ResultRecord]
