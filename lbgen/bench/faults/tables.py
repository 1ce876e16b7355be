"""A drill as tables of text: one for each fault, a row for each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.bench.faults.timeline import BUCKET_SECONDS, buckets
from lbgen.bench.tables import Figure, FigureRow, FigureTable, markdown_lines

if TYPE_CHECKING:
    from lbgen.bench.faults.report import Drill, FaultReport

_COLUMNS = ("failed", "may fail", "p99 ms before, in it, after", "slowest ms", "may be", "answers/s", "envelope")
_BLOCKS = "▁▂▃▄▅▆▇█"
ABOUT = f"answers/s: good answers over the timeline, one block for {BUCKET_SECONDS:g} s, full at the rate of requests"


def fault_tables(report: FaultReport) -> tuple[FigureTable, ...]:
    """One for each fault, in the order in which they came."""
    versions = {each.engine: each.version for each in report.engines}
    return tuple(
        FigureTable(
            f"{fault}: {fault.sentence}",
            _COLUMNS,
            tuple(
                FigureRow(each.engine, versions.get(each.engine, ""), _figures(each, report.rate))
                for each in report.drills
                if each.fault is fault
            ),
        )
        for fault in report.faults
    )


def fault_notes(report: FaultReport) -> tuple[str, ...]:
    """What the topology allows, and what was seen beside the figures, in sentences."""
    found = [f"{fault}: {next(x.envelope.why for x in report.drills if x.fault is fault)}" for fault in report.faults]
    found += [f"{x.fault}, {x.engine}: {x.detail}" for x in report.drills if x.detail]
    return (*found, ABOUT)


def fault_problems(report: FaultReport) -> tuple[str, ...]:
    """What engines did that the envelope does not allow, and why others were not measured."""
    found = [f"{x.fault}, {x.engine}: {each}" for x in report.drills for each in x.excesses]
    return (*found, *(f"{x.fault}, {x.engine}, failed: {x.failed[0].message}" for x in report.drills if x.failed))


def faults_to_markdown(report: FaultReport) -> str:
    """The tables, what left the envelope, what was not measured, and the notes."""
    lines = [
        f"# {report.name}: faults",
        "",
        f"GET `{report.target.target}`, route `{report.target.route}`, {report.rate} requests/s.",
        "",
        f"{report.machine.system}, {report.machine.cores} cores, {report.machine.cpu}.",
    ]
    for table in fault_tables(report):
        lines += ["", f"## {table.title}", "", *markdown_lines(table)]
    problems = fault_problems(report)
    problems += tuple(f"{x.engine}, {x.why}: {x.reasons[0].message}" for x in report.not_measured)
    if problems:
        lines += ["", "## Outside the envelope, or not measured", "", *(f"- {each}" for each in problems)]
    lines += ["", "## Notes", "", *(f"- {note}" for note in fault_notes(report))]
    return "\n".join(lines) + "\n"


def _figures(drill: Drill, rate: int) -> tuple[Figure, ...]:
    if drill.failed:
        return (*(Figure("-") for _ in _COLUMNS[:-1]), Figure("failed"))
    slowest = max((x.took for x in drill.outcomes), default=0.0) * 1000
    most = drill.longest_allowed
    return (
        Figure(str(drill.failures)),
        Figure(str(drill.allowed)),
        Figure(", ".join("-" if x is None else f"{x:.0f}" for x in drill.p99_parts)),
        Figure(f"{slowest:.0f}"),
        Figure("-" if most is None else f"{most * 1000:.0f}"),
        Figure("".join(_block(x.answered / rate) for x in buckets(drill.outcomes))),
        Figure("outside" if drill.excesses else "within"),
    )


def _block(share: float) -> str:
    return _BLOCKS[min(len(_BLOCKS) - 1, max(0, round(share * (len(_BLOCKS) - 1))))]
