"""The page of `--html`: topology, verdicts, rendered files and a verification, as plain text and numbers.

The template decides how they look: it has no script and fetches nothing, and Jinja escapes everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.report import columns, matrix, totals
from lbgen.diagnostics import LbgenError, Span
from lbgen.engines.api import Level, RenderedFile, engine, engines_of, split_lines, target_version
from lbgen.engines.rendered import Rendered, render
from lbgen.engines.verdicts import (
    ACCEPT_ALL,
    BY_DOCUMENTATION,
    LEGEND,
    Answer,
    answers,
    judge,
    mark,
    notes,
    worst_by_feature,
)
from lbgen.plan.tiers import Tier, parts
from lbgen.version import VERSION

if TYPE_CHECKING:
    from lbgen.conformance.verify.report import Report
    from lbgen.spec.load import Topology

MOST_LINES = 5_000  # of a file; a browser is slow with many more
_Places = Mapping[str, Mapping[str, Span]]  # by tier and field
_Rendered = Mapping[str, Rendered | LbgenError]  # by engine


def to_html(page: Page) -> str:
    """The whole document."""
    return render_template("page.html.j2", page=page)


def render_template(name: str, **values: object) -> str:
    """A template of this folder, with everything escaped."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name).render(**values)


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


def build_page(
    topology: Topology,
    names: tuple[str, ...],
    accept: tuple[str, ...] = (),
    report: Report | None = None,
    report_notes: Sequence[str] = (),
) -> Page:
    """The page about `topology` on the engines `names`, where a tier names none; with `report` a verification's.

    An engine that only approximates what is not accepted is rendered all the same, and says so. `report_notes`:
    sentences about how the verification ran. Raises LbgenError: findings of the topology.
    """
    tiers = parts(topology)
    places = {tier.name: dict(tier.plan.spans) for tier in tiers}
    done = {tier.name: {name: _rendered(tier, name) for name in engines_of(tier, names)} for tier in tiers}
    sources = _sources(places, done)
    return Page(
        topology.name,
        VERSION,
        tuple(sources.values()),
        tuple(_part(tier, done[tier.name], places[tier.name], sources, accept) for tier in tiers),
        None if report is None else _verification(report, report_notes),
    )


def _rendered(tier: Tier, name: str) -> Rendered | LbgenError:
    try:
        return render(tier.plan, engine=name, accept=(ACCEPT_ALL,))
    except LbgenError as refused:
        return refused


def _sources(places: _Places, done: Mapping[str, _Rendered]) -> dict[str, Source]:
    """The files of the topology behind at least one rendered line, by name; those that can still be read."""
    names: dict[str, None] = {}
    for tier, rendered in done.items():
        for one in rendered.values():
            for file in one.files if isinstance(one, Rendered) else ():
                spans = (places[tier][field] for field in dict.fromkeys(file.origins) if field in places[tier])
                names |= dict.fromkeys(span.file for span in spans)
    found: dict[str, Source] = {}
    for name in sorted(names):
        try:
            lines = Path(name).read_text(encoding="utf-8").splitlines()
        except OSError:  # standard input, or a mapping of Python
            continue
        found[name] = Source(name, len(found), tuple(lines))
    return found


def _part(
    tier: Tier, rendered: _Rendered, places: Mapping[str, Span], sources: Mapping[str, Source], accept: tuple[str, ...]
) -> Part:
    found: dict[str, tuple[Answer, ...]] = {}
    titles: dict[str, str] = {}
    reasons: dict[str, tuple[str, ...]] = {}
    for name in rendered:
        target = engine(name)
        version = target_version(target, tier.plan.options(name).version)
        titles[name] = f"{target.title} {version}"
        found[name] = answers(tier.plan, target, version, accept)
        stops = judge(tier.plan, target, version, accept)[1]
        reasons[name] = tuple(f"{each.field}: {each.message}; {each.hint}".rstrip("; ") for each in stops)
    rows = [
        Row(feature, tuple(_verdict(cells.get(name)) for name in found))
        for feature, cells in worst_by_feature(found).items()
    ]
    marks = {mark(answer) for every in found.values() for answer in every}
    engines = [
        replace(_engine(titles[name], found[name], one, places, sources), reasons=reasons[name])
        for name, one in rendered.items()
    ]
    legend = tuple((f"approximate{each}", meaning) for each, meaning in LEGEND.items() if each in marks)
    if any(answer.verdict.level is Level.DOCUMENTED for every in found.values() for answer in every):
        legend = (*legend, ("documented", BY_DOCUMENTATION))
    return Part(tier.name, Table("feature", tuple(titles.values()), tuple(rows)), legend, tuple(engines))


def _verdict(answer: Answer | None) -> Cell:
    level = "" if answer is None else str(answer.verdict.level)
    return Cell(level if answer is None else f"{level}{mark(answer)}", level)


def _engine(
    title: str,
    found: Sequence[Answer],
    rendered: Rendered | LbgenError,
    places: Mapping[str, Span],
    sources: Mapping[str, Source],
) -> EngineView:
    explained = tuple(
        Note(level, marked, ", ".join(labels), text) for (level, marked, text), labels in notes(found).items()
    )
    files = rendered.files if isinstance(rendered, Rendered) else ()
    return EngineView(
        title,
        explained,
        tuple(_file(each, places, sources) for each in files if each.origins),
        tuple(each.name for each in files if not each.origins),
    )


def _file(file: RenderedFile, places: Mapping[str, Span], sources: Mapping[str, Source]) -> NativeFile:
    lines = []
    texts = split_lines(file.text)
    for text, field in zip(texts[:MOST_LINES], file.origins, strict=False):
        span = places.get(field)
        source = sources.get(span.file) if span is not None else None
        target = f"s{source.number}l{span.line}" if source is not None and span is not None and span.line else ""
        lines.append(Line(text, field, target))
    return NativeFile(file.name, tuple(lines), max(len(texts) - MOST_LINES, 0))


def _verification(report: Report, report_notes: Sequence[str]) -> Verification:
    rows = [
        Row(clause, tuple(Cell(text, str(state or "")) for state, text in cells))
        for clause, cells in matrix(report.results)
    ]
    total = Row("all", tuple(Cell(text, str(state or "")) for state, text in totals(report.results)), total=True)
    count, broken = len(report.differences), len(report.broken)
    verdict = f"{count} difference{'s' * (count != 1)}, {broken} engine{'s' * (broken != 1)} failed"
    return Verification(
        report.green,
        f"{'green' if report.green else verdict} in {report.seconds:.0f} s",
        Table("clause", columns(report.results), (*rows, total)),
        tuple(Difference(each.subject, each.case, each.detail, each.again) for each in report.differences),
        tuple(report_notes),
        tuple(
            (f"{left.engine} {'failed' if left.broken else 'was left out'}", reason.message)
            for left in report.left
            for reason in left.reasons[:1]
        ),
    )
