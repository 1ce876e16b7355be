"""`lbgen logs`: the output of a stack's engines and the requests they served, in one schema for all engines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, cast

import click
import msgspec
from msgspec import UNSET, Meta, UnsetType

from lbgen.cli import options, values
from lbgen.cli.output import print_json
from lbgen.cli.stacks import stack_argument, stack_name
from lbgen.json_types import AccessRecord, Printed
from lbgen.runtime.common.logs import Line, RequestFilter
from lbgen.runtime.stacks import logs, requests

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue")
_STATUS_COLOURS = {2: "green", 3: "cyan", 4: "yellow", 5: "red"}
_SHAPE = re.compile(r"([1-5])xx|([0-9]{3})(?:-([0-9]{3}))?")
_HEAD = (
    f"{'time':12} {'engine':9} {'status':6} {'ms':>7} {'upstream':>8} {'bytes':>8}  request -> route, pool, endpoint"
)


class LogLine(Printed, frozen=True):
    """A line that a process of a stack printed, or one of the access log."""

    source: Annotated[str, Meta(description="The engine; with -agent its agent; lbgen is the supervisor.")]
    text: Annotated[str | UnsetType, Meta(description="Not of the access log.")] = UNSET
    record: Annotated[AccessRecord | UnsetType, Meta(description="Only of the access log.")] = UNSET


class EngineAccess(AccessRecord):
    """A request in the access log of an engine."""

    engine: str


@click.command(
    epilog="\b\nExamples:\n  lbgen logs\n  lbgen logs shop -e nginx -f\n"
    "  lbgen logs --access --route api --status 5xx\n  lbgen logs --access --json -f | jq .duration_ms"
)
@stack_argument
@click.option("-e", "--engine", type=values.PartName(), help="Only this engine; with tiers a replica, such as web-1.")
@click.option("-f", "--follow", is_flag=True, help="Continue until the stack is stopped.")
@click.option(
    "--access/--no-access",
    default=None,
    help="Only requests (with `access_log: json`), or everything but requests. Default: both.",
)
@click.option("--route", "routes", multiple=True, help="Only requests of this route (repeatable); implies --access.")
@click.option(
    "--status",
    "statuses",
    type=values.status,
    multiple=True,
    help="Only requests with this status: 404, 500-503, 5xx (repeatable); implies --access.",
)
@options.json_flag
def logs_command(
    stack: str | None,
    engine: str | None,
    follow: bool,
    access: bool | None,
    routes: tuple[str, ...],
    statuses: tuple[tuple[int, int], ...],
    as_json: bool,
) -> None:
    """Show the output of a stack's engines, and the requests they served.

    Requests look the same for every engine. With --json and --access (or -f) each line is a JSON object.
    """
    name = stack_name(stack)
    if access or routes or statuses:
        if access is False:
            raise click.UsageError("--route and --status select requests, which --no-access excludes")
        _requests(requests(name, engine, RequestFilter(frozenset(routes), statuses), follow=follow), as_json)
        return
    lines = (line for line in logs(name, engine, follow=follow) if access is None or line.record is None)
    if as_json and not follow:
        print_json([_data(line) for line in lines])
        return
    colours: dict[str, str] = {}
    for line in lines:
        if as_json:
            click.echo(json.dumps(msgspec.to_builtins(_data(line))))
            continue
        colour = colours.setdefault(line.source, _COLOURS[len(colours) % len(_COLOURS)])
        text = printable(line.text) if line.record is None else _row(line.record)
        click.echo(f"{click.style(f'{line.source:9}', fg=colour)} {text}")


def _requests(lines: Iterable[Line], as_json: bool) -> None:
    if not as_json:
        click.echo(_HEAD)
    for line in lines:
        assert line.record is not None  # noqa: S101 - `requests` gives no others
        if as_json:
            click.echo(json.dumps({"engine": line.source, **line.record}))
        else:
            when, _, rest = _row(line.record).partition(" ")
            click.echo(f"{when} {line.source:9} {rest}")


def _data(line: Line) -> LogLine:
    if line.record is None:
        return LogLine(line.source, line.text)
    return LogLine(line.source, record=cast("AccessRecord", line.record))


def _row(record: Mapping[str, object]) -> str:
    """Format a request as one line that starts with the time of day in UTC."""
    status = record["status"]
    number = status if isinstance(status, int) else 0
    shown = click.style(f"{number or '-':<6}", fg=_STATUS_COLOURS.get(number // 100, "red"))
    tries = f" ({record['tries']} tries)" if record["tries"] not in (0, 1) else ""
    where = ", ".join(printable(str(record[name])) for name in ("route", "pool", "endpoint") if record[name]) or "-"
    time = str(record["time"]).partition("T")[2].rstrip("Z")
    request = printable(f"{record['method']} {record['host']}{record['path']}")
    numbers = f"{_number(record['duration_ms']):>7} {_number(record['upstream_ms']):>8} {_number(record['bytes']):>8}"
    return f"{time:12} {shown} {numbers}  {request} -> {where}{tries}"


def _number(value: object) -> str:
    return "-" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def printable(text: str) -> str:
    """Escape characters that a terminal would interpret: a client may have put them into its request."""
    return "".join(char if char.isprintable() or char == "\t" else f"\\x{ord(char):02x}" for char in text)
