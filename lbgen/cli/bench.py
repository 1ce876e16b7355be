"""`lbgen bench`: measure engines under load, after each of them verified the topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli import options
from lbgen.cli.output import console, print_json
from lbgen.cli.request import build_request, choose_listener, parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from rich.console import Console
    from rich.table import Table

    from lbgen.bench.load import LoadShape
    from lbgen.bench.report import BenchReport, Row, Spread
    from lbgen.bench.rounds import BenchProgress
    from lbgen.plan.model import Plan
    from lbgen.plan.request import Request

MOST_CONNECTIONS = 10_000
MOST_RATE = 100_000
QUICK_SECONDS, QUICK_ROUNDS, QUICK_CONNECTIONS, QUICK_LADDER = 2, 3, (50,), (0.25, 0.5)


class Numbers(click.ParamType[tuple[int, ...]]):
    """Numbers, separated by commas; where `none` is allowed, that is no number."""

    name = "numbers"

    def __init__(self, most: int, *, none: bool = False) -> None:
        self.most = most
        self.none = none

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return them, or fail with a usage error."""
        if isinstance(value, tuple):
            return value
        if self.none and value == "none":
            return ()
        words = value.split(",")
        if not all(word.isascii() and word.isdigit() and 1 <= int(word) <= self.most for word in words):
            self.fail(f"{value!r} is not a list such as 50,250 of numbers from 1 to {self.most}", param, ctx)
        return tuple(int(word) for word in words)


@click.command(
    epilog="\b\nExamples:\n  lbgen bench shop.yaml --quick            # 2 s rounds, 3 of them, 50 connections\n"
    "  lbgen bench shop.yaml -e nginx -e haproxy --connections 50,250,500\n"
    "  lbgen bench shop.yaml --url http://shop.example:8080/api/cart --json"
)
@options.topology
@options.engines
@click.option("--url", metavar="URL", help="Request this URL.  [default: the first that a route forwards]")
@click.option("--listener", metavar="NAME", help="Measure this listener, also one of layer 4 over TCP.")
@click.option(
    "--connections",
    type=Numbers(MOST_CONNECTIONS),
    metavar="N,N",
    help="The numbers of connections, separated by commas.  [default: 50,250; 50 with --quick]",
)
@click.option("--new-connections", is_flag=True, help="Measure also with a new connection for each request.")
@click.option(
    "--rates",
    type=Numbers(MOST_RATE, none=True),
    metavar="N,N",
    help="Constant rates, requests per second; none: the closed loop only.  [default: 25, 50 and 75 % of what the "
    "fastest engine answers; 25 and 50 % with --quick]",
)
@click.option("--seconds", type=click.IntRange(1, 3600), help="Of each round.  [default: 4; 2 with --quick]")
@click.option("--rounds", type=click.IntRange(1, 1000), help="For each engine.  [default: 5; 3 with --quick]")
@click.option("--quick", is_flag=True, help="Shorter rounds, fewer of them, one number of connections.")
@options.accept
@options.json_flag
def command(
    topology: options.TopologyFiles,
    chosen: tuple[str, ...],
    url: str | None,
    listener: str | None,
    connections: tuple[int, ...] | None,
    new_connections: bool,
    rates: tuple[int, ...] | None,
    seconds: int | None,
    rounds: int | None,
    quick: bool,
    accept: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure engines on TOPOLOGY: requests per second, CPU time, latency and memory, beside the endpoint alone.

    Engines run on this host before one endpoint, on free ports of 127.0.0.1, and are loaded in turn: by wrk in a closed
    loop, then at constant rates, where latency counts from the time at which a request was due. One that does not pass
    a short `verify` is named and not measured: exit 4 if it differs, 3 if it failed.
    """
    import lbgen
    from lbgen.bench.rounds import LADDER
    from lbgen.bench.run import CONNECTIONS, ROUNDS, SECONDS

    if url is not None and listener is not None:
        raise click.UsageError("--url and --listener exclude each other: a URL's port is that of a listener")
    loaded = topology.load()
    with _progress(console(stderr=True)) as show:
        report = lbgen.bench(
            loaded,
            chosen or None,
            request=None if url is None else _request(lbgen.plan(loaded), url),
            listener=listener,
            connections=connections or (QUICK_CONNECTIONS if quick else CONNECTIONS),
            seconds=seconds or (QUICK_SECONDS if quick else SECONDS),
            rounds=rounds or (QUICK_ROUNDS if quick else ROUNDS),
            new_connections=new_connections,
            rates=rates,
            ladder=QUICK_LADDER if quick else LADDER,
            accept=accept,
            progress=show,
        )
    if as_json:
        print_json(report.as_dict())
    else:
        _print(console(), report)
    raise click.exceptions.Exit(report.exit_code)


def _request(plan: Plan, url: str) -> Request:
    """The GET of a URL, to the listener on its port."""
    from dataclasses import replace

    from lbgen.plan.model import Mode

    scheme, authority, _ = parse_url(url)
    if not authority:
        raise click.UsageError(f"{url!r} names no host: write http://HOST:PORT/PATH")
    name = choose_listener([each for each in plan.listeners if each.mode is Mode.L7], scheme, authority)
    return replace(build_request("GET", url, (), "127.0.0.1"), listener=name)


class _Shown:
    """Shows each step on standard error: a bar on a terminal, else a line for each new step."""

    def __init__(self, out: Console) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.bars = Progress(*columns, console=out, disable=not out.is_terminal, transient=True)
        self._out = out
        self._said = ""
        self._task = self.bars.add_task("", total=None, left="")

    def __call__(self, step: BenchProgress) -> None:
        left = f"about {step.left:.0f} s left" if step.left else ""
        self.bars.update(self._task, description=step.what, completed=step.done, total=step.total or None, left=left)
        phase = step.what.partition(":")[0]
        if not self._out.is_terminal and phase != self._said:
            self._said = phase
            self._out.print(f"{phase}, {left}" if left else phase, style="dim", markup=False)


def _progress(out: Console) -> AbstractContextManager[_Shown]:
    from contextlib import contextmanager

    @contextmanager
    def shown() -> Iterator[_Shown]:
        found = _Shown(out)
        with found.bars:
            yield found

    return shown()


def _print(out: Console, report: BenchReport) -> None:
    load = report.load
    if report.rows:
        sent = ", ".join(f"{name}: {value}" for name, value in load.target.headers)
        out.print(
            f"{report.name}: GET {load.target.target} ({sent}), route {load.target.route}, {load.body_bytes} B",
            markup=False,
        )
        out.print(f"{load.rounds} rounds of {load.seconds} s: median, and below it the quartiles", markup=False)
    for shape in load.generators:
        out.print(_table(report, shape))
    for each in report.not_measured:
        more = f" (and {len(each.reasons) - 1} more)" if len(each.reasons) > 1 else ""
        out.print(f"not measured, {each.why}: {each.engine}: {each.reasons[0].message}{more}", markup=False)
    if not report.rows:
        out.print("no engine was measured", style="bold red")
    for note in report.notes if report.rows else ():
        out.print(note, markup=False, style="dim")


_CLOSED = ("requests/s", "CPU us/\nrequest", "p50 ms", "p99 ms", "peak\nMiB", "errors", "not 2xx\nor 3xx")
_CONSTANT = (
    "p50 ms", "over\ndirect", "p95 ms", "p99 ms", "p99.9\nms", "CPU us/\nrequest", "errors", "not 2xx\nor 3xx"
)  # fmt: skip


def _table(report: BenchReport, shape: LoadShape) -> Table:
    from rich import box
    from rich.table import Table

    title = f"{shape.title}, by {report.load.generators[shape].partition(' (')[0]}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("engine", no_wrap=True)
    for name in _CLOSED if shape.rate is None else _CONSTANT:
        table.add_column(name, justify="right", no_wrap=True)
    versions = {each.engine: each.version for each in report.engines}
    for row in report.rows:
        if row.shape == shape:
            figures = _closed(row) if shape.rate is None else _constant(row, report.over_direct(row))
            behind = "\nbehind" if row.behind else ""
            table.add_row(f"{row.subject}\n{versions.get(row.subject, '')}{behind}", *figures)
    return table


def _closed(row: Row) -> tuple[str, ...]:
    return (
        _spread(row.per_second, 0),
        _spread(row.cpu_us, 0),
        _spread(row.p50_ms, 1),
        _spread(row.p99_ms, 1),
        "-" if row.peak_memory is None else f"{row.peak_memory:.0f}",
        str(row.errors),
        str(row.refused),
    )


def _constant(row: Row, over_direct: Spread | None) -> tuple[str, ...]:
    return (
        _spread(row.p50_ms, 2),
        _spread(over_direct, 2),
        _spread(row.p95_ms, 1),
        _spread(row.p99_ms, 1),
        _spread(row.p999_ms, 1),
        _spread(row.cpu_us, 0),
        str(row.errors),
        str(row.refused),
    )


def _spread(figure: Spread | None, digits: int) -> str:
    if figure is None:
        return "-"
    low, high = figure.quartiles
    return f"{figure.median:.{digits}f}\n{low:.{digits}f}-{high:.{digits}f}"
