"""`lbgen bench`: measure engines under load, after each of them verified the topology."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.bench_values import Delay, Faults, Numbers, Variant
from lbgen.cli.output import console, print_json
from lbgen.cli.request import build_request, choose_listener, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from rich.console import Console

    from lbgen.bench.faults.fault import Fault
    from lbgen.bench.rounds import BenchProgress
    from lbgen.plan.model import Plan
    from lbgen.plan.request import Request

MOST_CONNECTIONS = 10_000
MOST_RATE = 100_000
QUICK_SECONDS, QUICK_ROUNDS, QUICK_CONNECTIONS, QUICK_LADDER = 2, 3, (50,), (0.1, 0.25)


def _or_compare(measure: Callable[..., None]) -> Callable[..., None]:
    """Add the option --compare, which needs no TOPOLOGY."""

    @wraps(measure)
    def command(*, compared: tuple[str, str] | None, **rest: Any) -> None:  # noqa: ANN401
        if compared is None:
            measure(**rest)
            return
        if rest["topology"] is not None:
            raise click.UsageError("--compare measures nothing: leave TOPOLOGY out")
        from lbgen.bench.compare import compare, read_record
        from lbgen.cli.bench_output import print_comparison

        comparison = compare(*(read_record(Path(file)) for file in compared))
        if rest["as_json"]:
            print_json(comparison.as_dict())
        else:
            print_comparison(console(), comparison)
        raise click.exceptions.Exit(exit_codes.DIFFERS if comparison.changes else exit_codes.OK)

    return click.option(
        "--compare",
        "compared",
        type=(str, str),
        metavar="BEFORE AFTER",
        help="Say what changed between two files of -o, and measure nothing: exit 4 if something did.",
    )(command)


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
@click.option("--profiles", metavar="NAME,NAME", help="Measure TOPOLOGY with each of these profiles, side by side.")
@click.option(
    "--variant",
    "variants",
    type=Variant(),
    multiple=True,
    metavar="NAME:FIELD=VALUE",
    help="Measure TOPOLOGY also with this field set, side by side, such as "
    "direct:engines.nftables.forwarding=direct (repeatable).",
)
@click.option("--new-connections", is_flag=True, help="Measure also with a new connection for each request.")
@click.option(
    "--rates",
    type=Numbers(MOST_RATE, none=True),
    metavar="N,N",
    help="Constant rates, requests per second; none: the closed loop only.  [default: 10, 25 and 50 % of what the "
    "fastest engine answers; 10 and 25 % with --quick]",
)
@click.option(
    "--delay",
    "delays",
    type=Delay(),
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
    type=Faults(),
    default=(),
    metavar="LIST",
    help="What clients see while something fails, as timelines: all, or some of slow, reset, freeze, flap, 503 (of one "
    "endpoint), slow-clients, reload, kill, separated by commas. 100 requests/s, or one number of --rates; exit 4 "
    "where more fails than the topology's times and retries allow.",
)
@click.option("--quick", is_flag=True, help="Shorter rounds, fewer of them, one number of connections.")
@click.option(
    "-o",
    "--output",
    type=options.PageFile(dash=False),
    metavar="FILE",
    help="Also write the JSON there. If the command is interrupted, the same one goes on with FILE.partial.",
)
@click.option(
    "--html",
    type=options.PageFile(dash=False),
    metavar="FILE",
    help="Also write a page with charts; it needs no network.",
)
@click.option(
    "--markdown", type=options.PageFile(dash=False), metavar="FILE", help="Also write the tables as Markdown."
)
@options.accept
@options.json_flag
def command(
    topology: options.TopologyFiles,
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
    faults: tuple[Fault, ...],
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
    import lbgen
    from lbgen.cli.bench_output import print_bench, print_cost, print_faults, write_json, write_reports

    loaded = topology.load()
    request = None if url is None else _request(lbgen.plan(loaded), url)
    with _progress(console(stderr=True)) as show:
        if faults:
            from lbgen.bench.faults import run as drill

            drilled = drill.drill(
                loaded,
                chosen or None,
                tuple(dict.fromkeys(faults)),
                request=request,
                listener=listener,
                rate=rates[0] if rates else drill.RATE,
                accept=accept,
                progress=show,
            )
        elif costs:
            from lbgen.bench import cost

            priced = cost.cost(
                loaded,
                chosen or None,
                request=request,
                listener=listener,
                seconds=seconds or cost.SECONDS,
                rounds=rounds or (QUICK_ROUNDS if quick else cost.ROUNDS),
                accept=accept,
                progress=show,
            )
        else:
            from lbgen.bench.partial import SUFFIX
            from lbgen.bench.rounds import LADDER
            from lbgen.bench.run import CONNECTIONS, ROUNDS, SECONDS

            report = lbgen.bench(
                loaded,
                chosen or None,
                request=request,
                listener=listener,
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
                accept=accept,
                progress=show,
            )
    found = drilled if faults else priced if costs else report
    if output is not None:
        write_json(output, found.as_dict())
    write_reports(found, html, markdown)
    if as_json:
        print_json(found.as_dict())
    elif faults:
        print_faults(console(), drilled)
    elif costs:
        print_cost(console(), priced)
    else:
        print_bench(console(), report)
    raise click.exceptions.Exit(found.exit_code)


def _settings(variants: tuple[tuple[str, str, str], ...]) -> dict[str, dict[str, object]]:
    """The settings of each variant, by name."""
    import yaml

    found: dict[str, dict[str, object]] = {}
    for name, field, value in variants:
        found.setdefault(name, {})[field] = yaml.safe_load(value)
    return found


def _request(plan: Plan, url: str) -> Request:
    """The GET of a URL, to the listener on its port."""
    from lbgen.plan.model import Mode
    from lbgen.records import replace

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
