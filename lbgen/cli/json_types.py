"""The JSON that each command prints with --json: the type of each answer, from which `lbgen schema --of` is made."""

from __future__ import annotations

from typing import Any, NotRequired

from lbgen.bench.json_types import BenchComparisonRecord, BenchRecord, CostRecord, FaultsRecord
from lbgen.conformance.fingerprint import ChangedProbe
from lbgen.conformance.json_types import ComparisonRecord, PreviewRecord, ReportRecord
from lbgen.engines.costs import CostsRecord
from lbgen.engines.verdicts import VerdictRecord
from lbgen.json_types import FindingRecord, PlaceRecord, Record
from lbgen.runtime.common.stats import RouteStats
from lbgen.runtime.docker.images import ImageRow
from lbgen.runtime.json_types import BuiltImageRecord, EngineAccessRecord, OutputLine, RequestLine, StackRecord
from lbgen.spec.effective import ValueRecord


class RenderedRecord(Record):
    """The files of one engine, or why it refuses."""

    version: NotRequired[str]
    """Not where the engine refuses."""
    files: dict[str, str]
    """Name, relative to the engine's folder, to text."""
    verdicts: list[VerdictRecord]
    diagnostics: NotRequired[list[FindingRecord]]
    """Why the engine refuses."""


class TierRecord(Record):
    """The files of one tier."""

    replicas: list[str]
    engines: dict[str, RenderedRecord]


class OriginRecord(Record):
    """The field behind a rendered line (explain --line)."""

    engine: str
    text: str
    """The line."""
    field: str | None
    """null: no single field produces it."""
    place: PlaceRecord | None


class RenderedLineRecord(Record):
    """A rendered line that a field produces (explain --field)."""

    file: str
    line: int
    field: str
    text: str


class LosingRuleRecord(Record):
    """A rule that does not serve the request."""

    rule: str
    route: str
    reason: str


class ShareRecord(Record):
    """A pool that may serve the request."""

    pool: str
    weight: int


class UpstreamRecord(Record):
    """What reaches the endpoint."""

    method: str
    target: str
    host: str | None
    """null: the request had none, and what the engine sends is not promised."""
    endpoint: str | None
    """The only endpoint that it may be, by a sticky cookie."""
    set_cookies: list[str]
    """The cookie that the client gets, for each endpoint."""
    headers: dict[str, str | None]
    """null: the value is made by the proxy."""


class OutcomeRecord(Record):
    """What happens to a request."""

    route: str | None
    rule: str | None
    reason: str
    well_formed: bool
    """false: refused in the engine's own way, or served in a form on which the rules hold."""
    pool: str | None
    """null: none, or several by weight."""
    pools: list[ShareRecord]
    status: int | None
    """null: the endpoint answers."""
    others: list[int]
    """Statuses of which each may come instead."""
    location: str | None
    body: str | None
    """null: not promised."""
    upstream: UpstreamRecord | None
    losers: list[LosingRuleRecord]


class L4OutcomeRecord(Record):
    """What happens to a connection."""

    route: str | None
    rule: str | None
    reason: str
    pool: str | None
    pools: list[ShareRecord]
    losers: list[LosingRuleRecord]


class RouteRecord(OutcomeRecord):
    """What happens to a request on a listener."""

    listener: str


class PlaceInTiers(Record):
    """A listener of a tier."""

    tier: str
    listener: str
    client_known: bool
    """The client's address reaches the tier."""


class HopRecord(PlaceInTiers, OutcomeRecord):
    """What a tier does with a request."""


class L4HopRecord(PlaceInTiers, L4OutcomeRecord):
    """What an L4 tier does with a connection."""


class RouteThroughTiers(HopRecord):
    """What the last tier does with a request, and every tier before."""

    tiers: list[HopRecord | L4HopRecord]


class L4RouteThroughTiers(L4HopRecord):
    """The same, where the last tier is one of L4."""

    tiers: list[HopRecord | L4HopRecord]


class ImagesBuiltRecord(Record):
    """The images that were built."""

    built: list[BuiltImageRecord]
    failed: dict[str, str]
    """By engine: why not."""
    helper: str
    """The image for stand-ins and the agent."""


class FingerprintsRecord(Record):
    """What two versions of an engine do differently."""

    before: str
    """Engine and version."""
    after: str
    differences: list[ChangedProbe]


_Verdicts = dict[str, list[VerdictRecord]]
_Costs = dict[str, CostsRecord | None]
_Versions = dict[str, dict[str, list[FindingRecord]]]  # by engine and version: what rules it out

# Command to the type of its JSON; `images build` is a command within another. With tiers an answer may be one by tier.
ANSWERS: dict[str, Any] = {
    "check": list[FindingRecord],
    "render": dict[str, RenderedRecord] | dict[str, TierRecord],
    "explain": _Verdicts
    | dict[str, _Verdicts]
    | OriginRecord
    | list[RenderedLineRecord]
    | _Costs
    | dict[str, _Costs]
    | _Versions
    | dict[str, _Versions],
    "config": list[ValueRecord],
    "route": RouteRecord | RouteThroughTiers | L4RouteThroughTiers,
    "diff": ComparisonRecord,
    "verify": ReportRecord,
    "fingerprint": FingerprintsRecord,
    "bench": BenchRecord | CostRecord | FaultsRecord | BenchComparisonRecord,
    "preview": PreviewRecord,
    "up": StackRecord | PreviewRecord,
    "reload": StackRecord | PreviewRecord,
    "ps": list[StackRecord],
    "logs": list[OutputLine | RequestLine] | OutputLine | RequestLine | EngineAccessRecord,
    "stats": list[RouteStats],
    "down": list[str],
    "images": list[ImageRow],
    "images build": ImagesBuiltRecord,
}
