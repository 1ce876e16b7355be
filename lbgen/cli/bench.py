"""`lbgen bench`: measure engines under load, after each of them verified the topology."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import yaml
from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

import lbgen
from lbgen.bench import cost
from lbgen.bench.compare import compare, read_report
from lbgen.bench.faults import Fault
from lbgen.bench.faults import run as drill
from lbgen.bench.rounds import LADDER, SUFFIX
from lbgen.bench.run import CONNECTIONS, ROUNDS, SECONDS
from lbgen.cli import exit_codes, options, values
from lbgen.cli.bench_output import Report, print_comparison, print_report, write_json, write_reports
from lbgen.cli.output import console, print_json
from lbgen.cli.route import build_request, choose_listener, parse_url
from lbgen.cli.topology_files import TopologyFiles, topology_option
from lbgen.plan.model import Mode, Plan
from lbgen.plan.request import Request

if TYPE_CHECKING:
    from lbgen.bench.load import BenchProgress

MOST_CONNECTIONS = 10_000
MOST_RATE = 100_000
QUICK_SECONDS, QUICK_ROUNDS, QUICK_CONNECTIONS, QUICK_LADDER = 2, 3, (50,), (0.1, 0.25)


def _faults(text: str) -> tuple[Fault, ...]:
    """Names of faults, separated by commas, or `all`."""
    names = list(map(str, Fault))
    words = names if text == "all" else text.split(",")
    if unknown := [word for word in words if word not in names]:
        raise click.BadParameter(f"{unknown[0]!r} is no fault; it is all or some of {','.join(names)}")
    return tuple(map(Fault, words))


def _or_compare(measure: Callable[..., None]) -> Callable[..., None]:
    """Add the option --compare, which needs no TOPOLOGY."""

    @wraps(measure)
    def bench_command(*, compared: tuple[str, str] | None, **rest: Any) -> None:  # noqa: ANN401
        if compared is None:
            measure(**rest)
            return
        if rest["topology"] is not None:
            raise click.UsageError("--compare measures nothing: leave TOPOLOGY out")

        comparison = compare(*(read_report(Path(file)) for file in compared))
        if rest["as_json"]:
            print_json(comparison)
        else:
            print_comparison(console(), comparison)
        raise click.exceptions.Exit(exit_codes.DIFFERS if comparison.changes else exit_codes.OK)

    return click.option(
        "--compare",
        "compared",
        type=(str, str),
        metavar="BEFORE AFTER",
        help="Say what changed between two files of -o, and measure nothing: exit 4 if something did.",
    )(bench_command)


@click.command(
    epilog="\b\nExamples:\n  lbgen bench shop.yaml --quick            # 2 s rounds, 3 of them, 50 connections\n"
    "  lbgen bench shop.yaml -e nginx -e haproxy --connections 50,250,500\n"
    "  lbgen bench shop.yaml -e nginx --cost    # what each feature adds\n"
    "  lbgen bench shop.yaml --faults reset,kill # what clients see meanwhile\n"
    "  lbgen bench shop.yaml -o now.json --html now.html\n"
    "  lbgen bench --compare before.json now.json\n"
    "  lbgen bench shop.yaml --url http://shop.example:8080/api/cart --json"
)
@_or_compare
@topology_option
@options.engines
@click.option("--url", metavar="URL", help="Request this URL.  [default: the first that a route forwards]")
@click.option("--listener", metavar="NAME", help="Measure this listener, also one of layer 4 over TCP.")
@click.option(
    "--connections",
    type=values.numbers(MOST_CONNECTIONS),
    metavar="N,N",
    help="The numbers of connections, separated by commas.  [default: 50,250; 50 with --quick]",
)
@click.option("--profiles", metavar="NAME,NAME", help="Measure TOPOLOGY with each of these profiles, side by side.")
@click.option(
    "--variant",
    "variants",
    type=values.variant,
    multiple=True,
    metavar="NAME:FIELD=VALUE",
    help="Measure TOPOLOGY also with this field set, side by side, such as "
    "direct:engines.nftables.forwarding=direct (repeatable).",
)
@click.option("--new-connections", is_flag=True, help="Measure also with a new connection for each request.")
@click.option(
    "--rates",
    type=values.numbers(MOST_RATE, none=True),
    metavar="N,N",
    help="Constant rates, requests per second; none: the closed loop only.  [default: 10, 25 and 50 % of what the "
    "fastest engine answers; 10 and 25 % with --quick]",
)
@click.option(
    "--delay",
    "delays",
    type=values.delay,
    multiple=True,
    metavar="ENDPOINT=TIME",
    help="This endpoint answers late, such as pools.app.endpoints[0]=5ms (repeatable).",
)
@click.option("--seconds", type=click.IntRange(1, 3600), help="Of each round.  [default: 4; 2 with --quick]")
@click.option("--rounds", type=click.IntRange(1, 1000), help="For each engine.  [default: 5; 3 with --quick]")
@click.option(
    "--cost",
    "costs",
    is_flag=True,
    help="Measure what each feature of the topology costs: it is removed, one at a time.  [rounds of 1 s by default]",
)
@click.option(
    "--faults",
    type=_faults,
    metavar="LIST",
    help="What clients see while something fails, as timelines: all, or some of slow, reset, freeze, flap, 503 (of one "
    "endpoint), slow-clients, reload, kill, separated by commas. 100 requests/s, or one number of --rates; exit 4 "
    "where more fails than the topology's times and retries allow.",
)
@click.option("--quick", is_flag=True, help="Shorter rounds, fewer of them, one number of connections.")
@click.option(
    "-o",
    "--output",
    type=values.PageFile(dash=False),
    metavar="FILE",
    help="Also write the JSON there. If the command is interrupted, the same one goes on with FILE.partial.",
)
@click.option(
    "--html",
    type=values.PageFile(dash=False),
    metavar="FILE",
    help="Also write a page with charts; it needs no network.",
)
@click.option("--markdown", type=values.PageFile(dash=False), metavar="FILE", help="Also write the tables as Markdown.")
@options.accept
@options.json_flag
def bench_command(
    topology: TopologyFiles,
    chosen: tuple[str, ...],
    url: str | None,
    listener: str | None,
    connections: tuple[int, ...] | None,
    profiles: str | None,
    variants: tuple[tuple[str, str, str], ...],
    new_connections: bool,
    rates: tuple[int, ...] | None,
    delays: tuple[tuple[str, float], ...],
    seconds: int | None,
    rounds: int | None,
    costs: bool,
    faults: tuple[Fault, ...] | None,
    quick: bool,
    output: str | None,
    html: str | None,
    markdown: str | None,
    accept: tuple[str, ...],
    as_json: bool,
) -> None:
    """Measure engines on TOPOLOGY: requests per second, CPU time, latency and memory, beside the endpoint alone.

    Engines run on this host before one endpoint, on free ports of 127.0.0.1, and are loaded in turn: by wrk in a closed
    loop, then at constant rates, where latency counts from the time at which a request was due. One that does not pass
    a short `verify` is named and not measured: exit 4 if it differs, 3 if it failed.
    """
    if url is not None and listener is not None:
        raise click.UsageError("--url and --listener exclude each other: a URL's port is that of a listener")
    if costs and (connections or new_connections or delays or profiles or variants or rates is not None):
        raise click.UsageError("--cost chooses connections and rate itself, and endpoints answer at once")
    others = variants or profiles or connections or new_connections or delays or seconds or rounds or quick or costs
    if faults and (others or (rates is not None and len(rates) != 1)):
        raise click.UsageError("--faults has times of its own; beside it only one number of --rates has a meaning")

    loaded = topology.load()
    request = None if url is None else _request(lbgen.plan(loaded), url)
    what: dict[str, Any] = {"request": request, "listener": listener, "accept": accept}
    report: Report
    with _progress(console(stderr=True)) as show:
        if faults:
            rate = rates[0] if rates else drill.RATE
            report = drill.drill(loaded, chosen or None, tuple(dict.fromkeys(faults)), rate=rate, progress=show, **what)
        elif costs:
            rounds = rounds or (QUICK_ROUNDS if quick else cost.ROUNDS)
            seconds = seconds or cost.SECONDS
            report = cost.cost(loaded, chosen or None, seconds=seconds, rounds=rounds, progress=show, **what)
        else:
            report = lbgen.bench(
                loaded,
                chosen or None,
                connections=connections or (QUICK_CONNECTIONS if quick else CONNECTIONS),
                seconds=seconds or (QUICK_SECONDS if quick else SECONDS),
                rounds=rounds or (QUICK_ROUNDS if quick else ROUNDS),
                new_connections=new_connections,
                rates=rates,
                ladder=QUICK_LADDER if quick else LADDER,
                delays=dict(delays),
                profiles=profiles.split(",") if profiles else (),
                variants=_settings(variants),
                partial=None if output is None else Path(f"{output}{SUFFIX}"),
                progress=show,
                **what,
            )
    if output is not None:
        write_json(output, report)
    write_reports(report, html, markdown)
    if as_json:
        print_json(report)
    else:
        print_report(console(), report)
    raise click.exceptions.Exit(report.exit_code)


def _settings(variants: tuple[tuple[str, str, str], ...]) -> dict[str, dict[str, object]]:
    """The settings of each variant, by name."""
    found: dict[str, dict[str, object]] = {}
    for name, field, value in variants:
        found.setdefault(name, {})[field] = yaml.safe_load(value)
    return found


def _request(plan: Plan, url: str) -> Request:
    """The GET of a URL, to the listener on its port."""
    scheme, authority, _ = parse_url(url)
    if not authority:
        raise click.UsageError(f"{url!r} names no host: write http://HOST:PORT/PATH")
    name = choose_listener([each for each in plan.listeners if each.mode is Mode.L7], scheme, authority)
    return replace(build_request("GET", url, (), "127.0.0.1"), listener=name)


@contextmanager
def _progress(out: Console) -> Iterator[Callable[[BenchProgress], None]]:
    """Show each step on standard error: a bar on a terminal, else a line for each new step."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    said = ""
    with Progress(*columns, console=out, disable=not out.is_terminal, transient=True) as bars:
        task = bars.add_task("", total=None, left="")

        def show(step: BenchProgress) -> None:
            nonlocal said
            left = f"about {step.left:.0f} s left" if step.left else ""
            bars.update(task, description=step.what, completed=step.done, total=step.total or None, left=left)
            phase = step.what.partition(":")[0]
            if not out.is_terminal and phase != said:
                said = phase
                out.print(f"{phase}, {left}" if left else phase, style="dim", markup=False)

        yield show
