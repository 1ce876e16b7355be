"""`python -m tests.bench.documents`: measures the scenarios of examples/bench, and writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from rich.console import Console

import lbgen
from lbgen.bench.gate import verified_engines
from lbgen.bench.generators import Generators
from lbgen.bench.load import LoadShape
from lbgen.bench.machine import Machine
from lbgen.bench.report import DIRECT, BenchReport, LoadOptions, MeasuredEngine, Row, Spread, UnmeasuredEngine, rows_of
from lbgen.bench.rounds import Measurement
from lbgen.bench.subjects import BODY_BYTES, Unit, running
from lbgen.bench.tables import markdown_lines, tables
from lbgen.bench.target import choose_target
from lbgen.plan.request import Request
from lbgen.runtime.common.certificates import write_self_signed

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
FOLDER, PAGE = ROOT / "examples" / "bench", ROOT / "docs" / "benchmarks.md"
ORDER = ("layers", "balancers", "balancers-tls", "keep-alive", "slow-endpoint")
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
    delays: dict[str, float] = field(default_factory=dict)

    @staticmethod
    def read(name: str) -> Scenario:
        """That of a name."""
        data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
        lists = {key: tuple(data[key]) for key in ("engines", "connections", "rates", "claims")}
        return Scenario(**{**data, **lists})

    def plans(self, base: Path) -> dict[str, Any]:
        """The plan of each variant."""
        whole = lbgen.load(self.topology, base=base)
        return {name: lbgen.plan(whole.replace(settings)) for name, settings in self.variants.items()}


def measure(scenario: Scenario, base: Path, rounds: int, seconds: int, report: Callable[[str], None]) -> BenchReport:
    """All variants on all engines, in turn."""
    units: list[Unit] = []
    measured: list[MeasuredEngine] = []
    left: list[UnmeasuredEngine] = []
    for variant, plan in scenario.plans(base).items():
        report(f"{scenario.title}: verifying {variant}")
        layer_4 = str(plan.listener("web").mode) == "l4"
        target = choose_target(plan, None if layer_4 else REQUEST, "web")
        target = replace(target, target=REQUEST.target, headers=REQUEST.headers)
        good, others = verified_engines(plan, scenario.engines, ("all",), VERIFIED, lambda event: None)
        left += others
        for choice, engine in good:
            name = f"{choice.name}, {variant}" if variant else choice.name
            units.append(Unit(name, choice, plan, target))
            measured.append(MeasuredEngine(name, engine.version, engine.cases))
    generators = Generators.find()
    closed = [LoadShape(each) for each in scenario.connections]
    with running(units, ("all",), scenario.delays) as (subjects, failed):
        samples = Measurement(
            subjects, generators, closed, seconds, rounds, scenario.rates, (), lambda step: report(step.what)
        ).run()
    rows = rows_of(samples)
    names = {row.shape: generators.name(row.shape) for row in rows}
    load = LoadOptions(names, dict.fromkeys(names, ""), units[0].target, seconds, rounds, BODY_BYTES, scenario.delays)
    left += [UnmeasuredEngine.failed(name, reasons) for name, reasons in failed.items()]
    return BenchReport(scenario.title, Machine.this(), load, tuple(measured), tuple(left), rows, {})


FIGURES: dict[str, tuple[str, Callable[[Row], Spread | None]]] = {
    "rate": ("requests/s", lambda row: row.per_second),
    "cpu": ("CPU per request", lambda row: row.cpu_us),
    "p50": ("p50", lambda row: row.p50_ms),
    "p99": ("p99", lambda row: row.p99_ms),
}


def judge(claim: dict[str, str], rows: tuple[Row, ...]) -> list[tuple[str, str, str]]:
    """What came of a claim, for each pair of rows that it is about: where, the two medians, the verdict."""
    title, figure = FIGURES[claim["figure"]]
    found = []
    for row in rows:
        engine, _, variant = row.subject.partition(", ")
        if row.subject == DIRECT or claim["less"] not in (variant, engine) or row.shape.rate is not None:
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
        where = f"{engine}, {row.shape.connections} connections" if variant else f"{row.shape.connections} connections"
        found.append((where, f"{title}: {_number(less.median)} and {_number(more.median)}", verdict))
    return found


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def to_markdown(scenario: Scenario, report: BenchReport) -> str:
    """The section of a scenario."""
    lines = [f"## {scenario.title}", "", f"The document: {scenario.document.strip()}", ""]
    for table in tables(report):
        lines += [f"{table.title}:", "", *markdown_lines(table, ""), ""]
    if scenario.claims:
        lines += ["| claim | where | figures | | why |", "|---|---|---|---|---|"]
    for claim in scenario.claims:
        for where, figures, verdict in judge(claim, report.rows):
            what = f"{claim['less']} less than {claim['than']}"
            lines.append(f"| {what} | {where} | {figures} | {verdict} | {claim['why']} |")
    lines.append("")
    for each in report.not_measured:
        lines += [f"Not measured, {each.why}: {each.engine}: {each.reasons[0].message}", ""]
    lines += [f"- {endpoint} answers {seconds * 1000:g} ms late." for endpoint, seconds in scenario.delays.items()]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Measure, and write the page."""
    about = argparse.ArgumentParser("python -m tests.bench.documents", description=(__doc__ or "").partition(": ")[2])
    about.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    about.add_argument("--seconds", type=int, default=2, help="of a round (default: %(default)s)")
    about.add_argument("--only", choices=ORDER, help="print the section of this scenario; write nothing")
    asked = about.parse_args()
    console = Console(stderr=True)
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
            sections.append(to_markdown(scenario, found))
    if asked.only:
        Console().print(sections[0], markup=False, soft_wrap=True)
        return 0
    machine = Machine.this()
    made = (
        f"Measured on {datetime.now(UTC).date().isoformat()} with lbgen {machine.lbgen}: {machine.system}, "
        f"{machine.cores} cores, {machine.cpu}; {asked.rounds} rounds of {asked.seconds} s.\n"
    )
    PAGE.write_text("\n".join([_INTRO, made, *sections]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
