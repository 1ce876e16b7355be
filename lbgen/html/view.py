"""What the page shows, as plain text and numbers; the template decides how."""

from __future__ import annotations

from msgspec import Struct


class Cell(Struct, frozen=True):
    """`level`: a verdict's level or a case's state, which chooses the colour; "" for none."""

    text: str
    level: str = ""


class Row(Struct, frozen=True):
    """`cells`: one for each column of the table."""

    head: str
    cells: tuple[Cell, ...]
    total: bool = False


class Table(Struct, frozen=True):
    """`head`: the title of the first column."""

    head: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


class Note(Struct, frozen=True):
    """A verdict that is explained: its level with a mark, the features or places that have it, and the text."""

    level: str
    mark: str
    subjects: str
    text: str


class Line(Struct, frozen=True):
    """A rendered line. `target`: the line of the topology behind it, as the id of an element; "" for none."""

    text: str
    field: str = ""
    target: str = ""


class NativeFile(Struct, frozen=True):
    """`left_out`: how many lines at its end are not on the page."""

    name: str
    lines: tuple[Line, ...]
    left_out: int = 0


class EngineView(Struct, frozen=True):
    """An engine's notes and files. `static`: files that are the same for every topology. `reasons`: why it does
    not serve the topology as it stands."""

    title: str
    notes: tuple[Note, ...]
    files: tuple[NativeFile, ...]
    static: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


class Part(Struct, frozen=True):
    """A tier, or (tier "") the whole topology."""

    tier: str
    verdicts: Table
    legend: tuple[tuple[str, str], ...]
    engines: tuple[EngineView, ...]


class Source(Struct, frozen=True):
    """A file of the topology; the id of its n-th line is `s<number>l<n>`."""

    name: str
    number: int
    lines: tuple[str, ...]


class Difference(Struct, frozen=True):
    """A case that an engine answers otherwise than the oracle, and how to see it again: a curl line, or bytes."""

    engine: str
    case: str
    detail: str
    again: str


class Verification(Struct, frozen=True):
    """What `verify` found. `failed`: engines that did not run to the end, or were left out, each with the reason."""

    green: bool
    verdict: str
    cases: Table
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


class Page(Struct, frozen=True):
    """The whole page."""

    name: str
    version: str
    sources: tuple[Source, ...]
    parts: tuple[Part, ...]
    verification: Verification | None = None
