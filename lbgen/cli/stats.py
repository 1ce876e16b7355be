"""`lbgen stats`: requests, errors and times per engine and route, once or continuously."""

from __future__ import annotations

import json
import threading
from collections import Counter as Sums
from collections.abc import Iterator, Sequence

import click
import msgspec
from pydantic_core import PydanticCustomError
from rich.box import SIMPLE_HEAD
from rich.live import Live
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from lbgen.cli import options, values
from lbgen.cli.output import console, print_json
from lbgen.cli.stacks import stack_argument, stack_name
from lbgen.runtime import registry
from lbgen.runtime.common.logs import Line
from lbgen.runtime.common.stats import Counter, RouteStats, fetch
from lbgen.runtime.stacks import requests
from lbgen.spec.quantities import parse_duration

_REFRESH_SECONDS = 1.0
_WATCHED_MS = 60_000
NONE = (
    "no request is logged: L7 listeners log with `access_log: json` (the profiles minimal and low-latency disable it), "
    "L4 listeners do not log"
)


def _duration(text: str) -> int:
    """`30s`, `5m` as milliseconds, at least one second."""
    try:
        found = parse_duration(text)
    except PydanticCustomError as wrong:
        raise click.BadParameter(f"{wrong.message()}; {(wrong.context or {})['hint']}") from None
    if found < 1000:
        raise click.BadParameter(f"{text} is too short; the minimum is 1s")
    return found


@click.command(
    epilog="\b\nExamples:\n  lbgen stats\n  lbgen stats shop -e nginx --since 5m\n  lbgen stats -f\n"
    "  lbgen stats --json | jq '.[] | select(.errors > 0)'"
)
@stack_argument
@click.option("-e", "--engine", type=values.PartName(), help="Only this engine; with tiers a replica, such as web-1.")
@click.option(
    "--since",
    type=_duration,
    metavar="DURATION",
    help="Only requests of the last 30s, 5m, ...  [default: all; with -f 60s]",
)
@click.option("-f", "--follow", is_flag=True, help="Refresh every second until the stack is stopped.")
@options.json_flag
def stats_command(stack: str | None, engine: str | None, since: int | None, follow: bool, as_json: bool) -> None:
    """Show requests, errors and times for each engine and route, from the engines' access logs.

    Of rules in the kernel they are connections (over UDP: flows) since these were loaded; a reload keeps the counts.
    In a stack with `metrics` they are what its agents have counted since it came up, with quantiles estimated from
    buckets; --since and -f read the logs.
    Errors are 5xx answers and requests that ended without one; p50 and p99 are quantiles of the whole request time.
    With --json and -f each second is one JSON array on a line.
    """
    if follow and since is None:
        since = _WATCHED_MS
    counter = Counter(None if since is None else since / 1000)
    lines = requests(stack_name(stack), engine, follow=follow)
    if follow:
        _watch(lines, counter, as_json)
        return
    counted = _counted(stack_name(stack), engine) if since is None else None
    if counted is None:
        for line in lines:
            _count(counter, line)
    found = counter.stats() if counted is None else counted
    if since is None:
        found = (*found, *_connections(stack_name(stack), engine))
    if as_json:
        print_json(found)
    elif found:
        console().print(stats_table(found))
    else:
        click.echo(NONE if since is None else f"no request was logged in the last {since // 1000} s")


def _counted(stack: str | None, engine: str | None) -> tuple[RouteStats, ...] | None:
    """What the agents of a stack count; None where it has no metrics."""
    served = {x.name: x.metrics for x in registry.find_stack(stack).engines if x.metrics and engine in (None, x.name)}
    if not served:
        return None

    return tuple(each for name, url in sorted(served.items()) for each in fetch(name, url))


def _connections(stack: str | None, engine: str | None) -> Iterator[RouteStats]:
    """The connections that the kernel counted, by route."""
    for each in registry.find_stack(stack).engines:
        counts = each.counts if engine in (None, each.name) else None
        routes: Sums[str] = Sums()
        for (_, route), count in counts.routes.items() if counts is not None else ():
            routes[route] += count
        for route, count in sorted(routes.items()):
            yield RouteStats(each.name, route, count, None, 0, 0, 0, None, None, None, 0)


def _count(counter: Counter, line: Line) -> None:
    if line.record is not None:
        counter.add(line.source, line.record)


def _watch(lines: Iterator[Line], counter: Counter, as_json: bool) -> None:
    """Read lines on a thread and refresh on this one, as the rates of an idle stack fall without any new line."""
    lock, ended = threading.Lock(), threading.Event()
    failed: list[Exception] = []

    def read() -> None:
        try:
            for line in lines:
                with lock:
                    _count(counter, line)
        except Exception as error:  # noqa: BLE001 - raised below, on the thread that shows
            failed.append(error)
        finally:
            ended.set()

    threading.Thread(target=read, daemon=True).start()
    with Live(console=console(), auto_refresh=False, screen=False) as live:
        while True:
            done = ended.wait(_REFRESH_SECONDS)
            with lock:
                found = counter.stats()
            if as_json:
                click.echo(json.dumps(msgspec.to_builtins(found)))
            else:
                live.update(
                    stats_table(found) if found else Text(f"no request in the last {counter.seconds:.0f} s"),
                    refresh=True,
                )
            if done:
                break
    if failed:
        raise failed[0]


def stats_table(found: Sequence[RouteStats]) -> Table:
    """Build the table with a row for each engine and route."""

    def number(name: str) -> Column:
        return Column(name, justify="right", no_wrap=True)

    heads = ("requests", "/s", "4xx", "errors", "retried", "p50 ms", "p99 ms")
    route = Column("route", overflow="fold")
    made = Table(
        Column("engine", no_wrap=True), route, *(number(name) for name in heads), box=SIMPLE_HEAD, pad_edge=False
    )
    last = ""
    for each in found:
        errors = f"[red]{each.errors}[/]" if each.errors else "0"
        numbers = (str(each.requests), _short(each.per_second), str(each.client_errors), errors, str(each.retried))
        times = (_short(each.p50_ms), _short(each.p99_ms))
        made.add_row("" if each.engine == last else each.engine, escape(each.route), *numbers, *times)
        last = each.engine
    return made


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
