"""Types of the JSON about differences: between topologies, and between engines."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.topology_diff import ComparisonRecord
from lbgen.conformance.verify.edited_files import LineChange
from lbgen.json_types import FindingRecord, Record
from lbgen.runtime.common.driver import Action, PartKind


class PartChangeRecord(Record):
    """What would happen to one part of a stack."""

    kind: PartKind
    name: Annotated[
        str,
        Meta(
            description="The engine that it is or belongs to, or a replica such as web-1; empty for the stand-ins of a "
            "stack."
        ),
    ]
    action: Action
    reason: Annotated[str, Meta(description="Why not less happens; may be empty.")]


class PreviewRecord(Record):
    """What up or reload would do to what runs now."""

    name: str
    runtime: str
    changes: Annotated[bool, Meta(description="Whether anything would be created, changed or removed.")]
    interrupts: Annotated[bool, Meta(description="Whether requests would be refused or cut meanwhile.")]
    parts: list[PartChangeRecord]
    compared: Annotated[ComparisonRecord | None, Meta(description="null: nothing runs, or another lbgen started it.")]
    skipped: Annotated[dict[str, list[FindingRecord]], Meta(description="By engine that would be left out: why.")]
    warnings: list[FindingRecord]


class ScaledTimeRecord(Record):
    """A time that was shortened."""

    real_ms: int
    verified_ms: int


class VerifiedEngineRecord(Record):
    """An engine that was verified."""

    name: str
    version: str
    changed: Annotated[
        list[LineChange], Meta(description="Lines that differ from the topology's own files, all of them in times.")
    ]
    edits: Annotated[list[str], Meta(description="Where the files of --rendered are not as lbgen renders them.")]


class UnverifiedEngineRecord(Record):
    """An engine that was not verified."""

    engine: str
    broken: Annotated[bool, Meta(description="It failed; else it was left out.")]
    reasons: list[FindingRecord]


class ResultRecord(Record):
    """One case on one engine."""

    engine: str
    case: str
    clause: Annotated[str, Meta(description="Of docs/contract.md, or `engines agree`.")]
    state: CaseState
    detail: str


class ReportRecord(Record):
    """What a verification found."""

    name: str
    green: Annotated[bool, Meta(description="No difference that no verdict declares, and no engine failed.")]
    seconds: float
    own_addresses: Annotated[bool, Meta(description="Listeners and endpoints had the topology's own addresses.")]
    moved_because: Annotated[str, Meta(description="Why they had not; empty where they had.")]
    time_factor: Annotated[float, Meta(description="By how much the longest time was shortened.")]
    times: list[ScaledTimeRecord]
    totals: Annotated[dict[str, dict[str, int]], Meta(description="By engine, and by state: the number of cases.")]
    not_tried: list[str]
    engines: list[VerifiedEngineRecord]
    left_out: list[UnverifiedEngineRecord]
    differences: list[Result]
    results: list[ResultRecord]
