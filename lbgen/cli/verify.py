"""`lbgen verify`: send requests derived from a topology to all engines; compare with the oracle and each other."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

import lbgen
from lbgen.cli import options, values
from lbgen.cli.explain import write_page
from lbgen.cli.output import console, pluralize, print_json
from lbgen.cli.topology_files import TopologyFiles, topology_option
from lbgen.conformance.report import tables
from lbgen.conformance.runner import CaseState
from lbgen.conformance.verify.coverage import list_fields

if TYPE_CHECKING:
    from lbgen.conformance.verify.jobs import JobProgress
    from lbgen.conformance.verify.report import Report

SHOWN = 5  # differences printed, the first ones


@click.command(
    epilog="\b\nExamples:\n  lbgen verify shop.yaml                   # every engine that can serve it\n"
    "  lbgen verify shop.yaml -e nginx -e envoy --json\n"
    "  lbgen verify shop.yaml --html report.html\n"
    "  lbgen verify shop.yaml --against-version haproxy=2.6,2.8\n"
    "  lbgen verify shop.yaml --rendered out    # out/<engine>/ as it is, edited by hand or not\n"
    "  lbgen verify shop.yaml -e aws --against http://shop-1234.eu-west-1.elb.amazonaws.com"
)
@topology_option
@options.engines
@click.option(
    "--rendered", type=click.Path(file_okay=False), metavar="DIR", help="Serve DIR/<engine>/ as it is (root)."
)
@click.option(
    "--requests",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="The maximum number of requests per engine.",
)
@click.option(
    "--faults", type=click.IntRange(0), help="The maximum number of faults and policies per engine.  [default: all]"
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="The seed of the sample when there are more requests or faults.",
)
@click.option(
    "--against-version",
    "side_by_side",
    type=values.engine_versions,
    multiple=True,
    metavar="ENGINE=VERSION,...",
    help="Verify these versions of an engine side by side; one beside that which serves TOPOLOGY (repeatable).",
)
@click.option(
    "--against",
    type=values.listener_url,
    multiple=True,
    metavar="[LISTENER=]URL",
    help="Judge what the engine of -e serves there, as far as a client sees it; nothing is started (repeatable).",
)
@click.option(
    "--client",
    type=values.ip,
    metavar="ADDRESS",
    help="With --against: this host's address as the balancer there sees it.  [default: its own, in private networks]",
)
@options.accept
@options.html
@options.json_flag
def verify_command(
    topology: TopologyFiles,
    chosen: tuple[str, ...],
    rendered: str | None,
    requests: int,
    faults: int | None,
    seed: int,
    side_by_side: tuple[tuple[str, tuple[str, ...]], ...],
    against: tuple[tuple[str, str], ...],
    client: str | None,
    accept: tuple[str, ...],
    html: str | None,
    as_json: bool,
) -> None:
    """Send requests that the rules of TOPOLOGY distinguish, break its endpoints, and measure its times; compare.

    With --against an engine that runs elsewhere is judged by the answers that a client sees: endpoints that are no
    stand-ins get one GET for each route.

    Exit 4 on a difference that no verdict declares, 3 if an engine failed.
    """
    if side_by_side and rendered:
        raise click.UsageError("--rendered is of one version; leave --against-version out")
    if against and (side_by_side or rendered or faults):
        raise click.UsageError("--against starts nothing; leave --against-version, --rendered and --faults out")
    if client and not against:
        raise click.UsageError("--client is the address that a balancer sees; write --against URL")
    loaded = topology.load()
    out = console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, disable=as_json or not out.is_terminal, transient=True) as bars:
        tasks: dict[str, TaskID] = {}
        report = lbgen.verify(
            loaded,
            chosen or None,
            accept=accept,
            requests=requests,
            most_faults=faults,
            seed=seed,
            rendered=rendered,
            versions=dict(side_by_side),
            against=dict(against),
            client=client or "",
            progress=lambda event: _update_bar(bars, tasks, event),
        )
    if html:
        write_page(html, loaded, chosen, accept=accept, report=report, notes=report_notes(report))
    if html == "-":
        raise click.exceptions.Exit(report.exit_code)
    if as_json:
        print_json(report.as_dict())
    else:
        _print(console(), report)
    raise click.exceptions.Exit(report.exit_code)


def _update_bar(bars: Bars, tasks: dict[str, TaskID], event: JobProgress) -> None:
    if event.engine not in tasks:
        tasks[event.engine] = bars.add_task(event.engine, total=event.total or None)
    bars.update(
        tasks[event.engine],
        completed=event.done,
        total=event.total or None,
        description=f"{event.engine}: {event.what}",
    )


def _print(out: Console, report: Report) -> None:
    if report.results:
        title = f"{report.name}: cases passed of cases, by clause and engine"
        out.print(*tables(report.results, out, title=title), sep="\n\n")
    for left in report.left:
        what = "failed" if left.broken else "skipped"
        rest = f" (and {len(left.reasons) - 1} more)" if len(left.reasons) > 1 else ""
        out.print(f"{what} {left.engine}: {left.reasons[0].message}{rest}", markup=False)
    for line in report_notes(report):
        out.print(line, markup=False, style="dim")
    for result in report.differences[:SHOWN]:
        out.print(f"\n{result.subject}, {result.case}:", style="bold red", markup=False)
        out.print(f"  {result.again}\n  {result.detail}", markup=False)
    if len(report.differences) > SHOWN:
        out.print(
            f"\n... and {len(report.differences) - SHOWN} more (lbgen verify --json or --html has all)", markup=False
        )
    failed = f"{pluralize(len(report.differences), 'difference')}, {pluralize(len(report.broken), 'engine')} failed"
    verdict = "green" if report.green else "nothing was verified" if report.all_refused else failed
    out.print(
        f"\n{report.name}: {verdict} in {report.seconds:.0f} s", style="bold green" if report.green else "bold red"
    )


def report_notes(report: Report) -> list[str]:
    """Return sentences on how the verified topology differs from the given one, and on what was not tried."""
    sentences = []
    if report.scale.pairs:
        times = ", ".join(f"{_time(real)} as {_time(new)}" for real, new in report.scale.pairs)
        sentences.append(f"times were shortened (the longest divided by {report.scale.factor:g}): {times}")
    changed = [f"{x.engine} {len(x.changed)}" for x in report.served if x.changed]
    if changed:
        sentences.append(f"lines that differ from the topology's own files, only in these times: {', '.join(changed)}")
    if not report.isolated:
        sentences.append(f"listeners and endpoints used other ports of 127.0.0.1: {report.moved_because}")
    left = Counter(x.detail for x in report.results if x.state is CaseState.SKIPPED)
    sentences += [f"{pluralize(count, 'case')} skipped: {why}" for why, count in left.items()]
    if report.untried:
        sentences.append(f"not tried: {'; '.join(list_fields(report.untried))}")
    sentences += [f"{x.engine}/{edit} (not as lbgen renders it)" for x in report.served for edit in x.edits[:3]]
    return sentences


def _time(milliseconds: int) -> str:
    return f"{milliseconds // 1000} s" if milliseconds % 1000 == 0 else f"{milliseconds} ms"
