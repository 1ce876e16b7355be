"""`python -m tests.bench.documents`: measures the scenarios of examples/bench, and writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from msgspec.structs import replace
from rich.console import Console

import lbgen
from lbgen.bench.gate import verified_engines
from lbgen.bench.load import Generators, LoadShape
from lbgen.bench.report import (
    DIRECT,
    BenchReport,
    LoadOptions,
    MeasuredEngine,
    Row,
    Spread,
    UnmeasuredEngine,
    Why,
    rows_of,
    this_machine,
)
from lbgen.bench.rounds import Measurement
from lbgen.bench.subjects import BODY_BYTES, Unit, running
from lbgen.bench.tables import markdown_lines, tables
from lbgen.bench.target import choose_target
from lbgen.diagnostics import Diagnostic
from lbgen.plan.request import Request
from lbgen.runtime.common.certificates import write_self_signed
from tests.bench import comparators

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
FOLDER, PAGE = ROOT / "examples" / "bench", ROOT / "docs" / "benchmarks.md"
ORDER = (
    "layers", "kernel", "random-delay", "balancers", "balancers-tls", "keep-alive", "slow-endpoint", "own-proxy",
)  # fmt: skip
VERIFIED = 20  # requests for each variant and engine
# What all variants of a scenario forward.
REQUEST = Request("GET", "/api/orders/42", (("Host", "shop.example"), ("X-Plan", "gold")), "web")
_INTRO = """\
# Benchmarks measured again

The tables of published comparisons, measured with [`lbgen bench`](bench.md): engines with the same behaviour, verified
first, with the same number of workers and kept connections, in interleaved rounds before one endpoint. The scenarios
are data in [examples/bench](../examples/bench/README.md); `.venv/bin/python -m tests.bench.documents` writes this page.

Read ratios, not absolute figures: generator, endpoint and engine share the cores. A claim `agrees` where all rounds of
one are on the right side of all rounds of the other, `disagrees` where they are on the wrong side, else it is not
measurable here.
"""


@dataclass(frozen=True)
class Scenario:
    """A file of examples/bench."""

    title: str
    document: str
    engines: tuple[str, ...]
    connections: tuple[int, ...]
    rates: tuple[int, ...]
    topology: dict[str, Any]
    variants: dict[str, dict[str, Any]]
    claims: tuple[dict[str, str], ...]
    delays: dict[str, Any] = field(default_factory=dict)  # seconds, or two between which an endpoint chooses
    sizes: tuple[int, ...] = (BODY_BYTES,)  # of answers
    only: dict[str, list[str]] = field(default_factory=dict)  # the engines of a variant
    comparators: tuple[str, ...] = ()
    elsewhere: dict[str, str] = field(default_factory=dict)  # systems that cannot run here: what the document says

    @staticmethod
    def read(name: str) -> Scenario:
        """That of a name."""
        data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        names = ("engines", "connections", "rates", "claims", "sizes", "comparators")
        lists = {key: tuple(data[key]) for key in names if key in data}
        return Scenario(**{**data, **lists})

    def plans(self, base: Path) -> dict[str, Any]:
        """The plan of each variant."""
        whole = lbgen.load(self.topology, base=base)
        return {name: lbgen.plan(whole.replace(settings)) for name, settings in self.variants.items()}


def measure(
    scenario: Scenario, base: Path, rounds: int, seconds: int, report: Callable[[str], None]
) -> list[BenchReport]:
    """All variants on all engines, in turn; a report for each size of answers."""
    units: list[Unit] = []
    measured: list[MeasuredEngine] = []
    left: list[UnmeasuredEngine] = []
    for variant, plan in scenario.plans(base).items():
        report(f"{scenario.title}: verifying {variant}")
        layer_4 = str(plan.listener("web").mode) == "l4"
        target = choose_target(plan, None if layer_4 else REQUEST, "web")
        target = replace(target, target=REQUEST.target, headers=REQUEST.headers)
        names = scenario.only.get(variant, scenario.engines)
        good, others = verified_engines(plan, names, ("all",), VERIFIED, lambda event: None, kernel=True)
        left += others
        for choice, engine in good:
            name = f"{choice.name}, {variant}" if variant else choice.name
            units.append(Unit(name, choice, plan, target))
            measured.append(MeasuredEngine(name, engine.version, engine.verified_cases))
    programs = {name: comparators.build(name, base) for name in scenario.comparators}
    missing = Diagnostic("LB431", "its toolchain is not installed")
    left += [UnmeasuredEngine.of(name, Why.LEFT_OUT, (missing,)) for name, found in programs.items() if found is None]
    measured += [MeasuredEngine(name, found[1], 0) for name, found in programs.items() if found is not None]
    others = {name: found[0] for name, found in programs.items() if found is not None}
    every = (units, measured, left, others)
    return [_measure(scenario, every, size, (rounds, seconds), base, report) for size in scenario.sizes]


def _measure(
    scenario: Scenario, every: Any, size: int, rounds: tuple[int, int], base: Path, report: Callable[[str], None]
) -> BenchReport:
    units, measured, left, programs = every
    generators = Generators.find()
    closed = [LoadShape(each) for each in scenario.connections]
    with ExitStack() as stack:
        subjects, failed = stack.enter_context(running(units, ("all",), scenario.delays, size))
        for name, program in programs.items():
            endpoints = [x.authority for pool in subjects[1].process.plan.pools for x in pool.endpoints]
            subjects.append(stack.enter_context(comparators.run(name, program, base, subjects[1], endpoints)))
        samples = Measurement(
            subjects, generators, closed, rounds[1], rounds[0], scenario.rates, (), lambda step: report(step.what)
        ).run()
    return BenchReport(
        name=scenario.title,
        **this_machine(),
        load=LoadOptions.of(units[0].target, size, rounds[1], rounds[0], {}),
        engines=tuple(measured),
        not_measured=(*left, *(UnmeasuredEngine.of(name, Why.FAILED, reasons) for name, reasons in failed.items())),
        rows=rows_of(samples, lambda shape: (generators.name(shape), "")),
        notes=(),
        configurations={},
    )


FIGURES: dict[str, tuple[str, Callable[[Row], Spread | None]]] = {
    "rate": ("requests/s", lambda row: row.requests_per_second),
    "cpu": ("CPU per request", lambda row: row.cpu_us_per_request),
    "p50": ("p50", lambda row: row.p50_ms),
    "p99": ("p99", lambda row: row.p99_ms),
}


def judge(claim: dict[str, str], rows: tuple[Row, ...]) -> list[tuple[str, str, str]]:
    """What came of a claim, for each pair of rows that it is about: where, the two medians, the verdict."""
    title, figure = FIGURES[claim["figure"]]
    found = []
    for row in rows:
        engine, _, variant = row.subject.partition(", ")
        names = (variant, engine, row.subject)
        if row.subject == DIRECT or claim["less"] not in names or row.rate is not None:
            continue
        than = f"{engine}, {claim['than']}" if claim["less"] == variant else claim["than"]
        other = next((x for x in rows if x.subject == than and x.shape == row.shape), None)
        less, more = figure(row), None if other is None else figure(other)
        if less is None or more is None:
            continue
        verdict = "not measurable here"
        if max(less.rounds) < min(more.rounds):
            verdict = "agrees"
        elif max(more.rounds) < min(less.rounds):
            verdict = "**disagrees**"
        where = f"{engine}, {row.connections} connections" if variant else f"{row.connections} connections"
        found.append((where, f"{title}: {_number(less.median)} and {_number(more.median)}", verdict))
    return found


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def size_table(reports: list[BenchReport]) -> list[str]:
    """Requests per second and CPU per request of each subject, by the size of answers."""
    names = [row.subject for row in reports[0].rows]
    lines = [f"| bytes | {' | '.join(names)} |", "|---:" * (len(names) + 1) + "|"]
    for report in reports:
        cells = []
        for row in report.rows:
            cpu = row.cpu_us_per_request
            micros = "" if row.subject == DIRECT else f", {_number(cpu.median)} us" if cpu else ", -"
            cells.append(f"{_number(row.requests_per_second.median)}/s{micros}")
        lines.append(f"| {report.load.body_bytes:,} | {' | '.join(cells)} |")
    return lines


def to_markdown(scenario: Scenario, reports: list[BenchReport]) -> str:
    """The section of a scenario."""
    lines = [f"## {scenario.title}", "", f"The document: {scenario.document.strip()}", ""]
    report = reports[0]
    if len(reports) > 1:
        lines += ["Requests per second and CPU per request (-: not measurable here):", "", *size_table(reports), ""]
    for table in tables(report) if len(reports) == 1 else ():
        lines += [f"{table.title}:", "", *markdown_lines(table, ""), ""]
    if scenario.claims:
        lines += ["| claim | where | figures | | why |", "|---|---|---|---|---|"]
    for claim in scenario.claims:
        what = f"{claim['less']} less than {claim['than']}"
        verdicts = [
            (f"{each.load.body_bytes:,} bytes" if len(reports) > 1 else where, figures, verdict)
            for each in reports
            for where, figures, verdict in judge(claim, each.rows)
        ]
        for where, figures, verdict in verdicts:
            lines.append(f"| {what} | {where} | {figures} | {verdict} | {claim['why']} |")
    lines += ["", *elsewhere(scenario)]
    for each in report.not_measured:
        lines += [f"Not measured, {each.why}: {each.engine}: {each.reasons[0]['message']}", ""]
    for endpoint, late in scenario.delays.items():
        least, most = late if isinstance(late, list) else (late, late)
        span = f"{least * 1000:g}" if least == most else f"{least * 1000:g} to {most * 1000:g}"
        lines.append(f"- {endpoint} answers {span} ms late.")
    return "\n".join(lines).rstrip() + "\n"


def elsewhere(scenario: Scenario) -> list[str]:
    """A table of what is known of the systems that cannot run here."""
    if not scenario.elsewhere:
        return []
    rows = [f"| {name} | {what} | not measured here |" for name, what in scenario.elsewhere.items()]
    return ["| [a service of AWS](aws.md) | the document | |", "|---|---|---|", *rows, ""]


def with_section(page: str, section: str) -> str:
    """The page with a section in the place of the one with the same title, or after all others."""
    head, *others = page.split("\n## ")
    title = section.partition("\n")[0].removeprefix("## ")
    body = section.removeprefix("## ")
    titles = [each.partition("\n")[0] for each in others]
    if title in titles:
        others[titles.index(title)] = body
    else:
        others.append(body)
    return "\n\n## ".join([head.rstrip(), *(each.strip() for each in others)]) + "\n"


def _measured(rounds: int, seconds: int, busy: float) -> str:
    machine = this_machine()
    nice = os.nice(0)
    priority = f"; this ran at a higher priority, nice {nice}" if nice < 0 else ""
    others = (
        f" Other programs ran meanwhile (load average before: {busy:.0f}{priority}): read CPU per request."
        if busy > 1
        else ""
    )
    return (
        f"Measured on {datetime.now(UTC).date().isoformat()} with lbgen {machine['lbgen']}: {machine['system']}, "
        f"{machine['cores']} cores, {machine['cpu']}; {rounds} rounds of {seconds} s, "
        f"in brackets the least and greatest.{others}\n"
    )


def main() -> int:
    """Measure, and write the page."""
    about = argparse.ArgumentParser("python -m tests.bench.documents", description=(__doc__ or "").partition(": ")[2])
    about.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    about.add_argument("--seconds", type=int, default=2, help="of a round (default: %(default)s)")
    about.add_argument("--only", choices=ORDER, help="measure this scenario, and replace its section alone")
    asked = about.parse_args()
    console = Console(stderr=True)
    busy = os.getloadavg()[0]  # once: later it is the load of the scenario before
    sections = []
    with tempfile.TemporaryDirectory(prefix="lbgen-documents-") as name:
        base = Path(name)
        base.chmod(0o755)  # workers of engines are another user
        write_self_signed(base / "cert.pem", base / "key.pem", ("shop.example",))
        for each in (asked.only,) if asked.only else ORDER:
            scenario = Scenario.read(each)
            found = measure(
                scenario, base, asked.rounds, asked.seconds, lambda text: console.print(text, markup=False, style="dim")
            )
            sections.append(f"{to_markdown(scenario, found)}\n{_measured(asked.rounds, asked.seconds, busy)}")
    if asked.only:
        PAGE.write_text(with_section(PAGE.read_text(encoding="utf-8"), sections[0]), encoding="utf-8")
        return 0
    PAGE.write_text("\n".join([_INTRO, *sections]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
