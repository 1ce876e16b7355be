"""`lbgen ps` and `down`, and what commands on running stacks share: tables, and the argument that names a stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import time

import click
from rich import box
from rich.table import Column, Table
from rich.text import Text

import lbgen
from lbgen.cli import options
from lbgen.cli.output import console, print_findings, print_json, say, show_status
from lbgen.runtime.registry import docker_unreachable
from lbgen.runtime.results import Stack
from lbgen.runtime.stacks import down, ps

_NAMED = 3  # endpoints of a reason that are named before the rest is counted


def stack_argument(command: Callable[..., None]) -> Callable[..., None]:
    """The optional argument STACK: a topology file or a stack's name."""
    return click.argument("stack", required=False, metavar="[TOPOLOGY|NAME]")(command)


def stack_name(stack: str | None) -> str | None:
    """Return the stack's name: STACK itself, or the name in that topology file. None means the only running stack."""
    if stack is None or not Path(stack).is_file():
        return stack

    return lbgen.load(stack).name


def stacks_table(stacks: Sequence[Stack]) -> Table:
    """Build the table with a row for each engine and listener."""
    stack_column, engine_column = Column("stack", overflow="fold"), Column("engine", overflow="fold")
    one_line = (Column(name, no_wrap=True) for name in ("listener", "url", "pid"))
    made = Table(stack_column, engine_column, Column("state", min_width=len("running")), *one_line)
    for stack in stacks:
        for engine in stack.engines:
            state = "[green]running[/]" if engine.running else f"[red]{engine.ended or 'gone'}[/]"
            if engine.restarts:
                state += f" (restarted {engine.restarts}x, last: {engine.died})"
            for index, address in enumerate(engine.addresses):
                head = (stack.name, f"{engine.name} {engine.version}", state) if index == 0 else ("", "", "")
                made.add_row(*head, address.listener, address.url, str(engine.pid or "-") if index == 0 else "")
            if engine.metrics:
                made.add_row("", "", "", "[dim]metrics[/]", engine.metrics, "")
    return made


def health_table(stacks: Sequence[Stack]) -> Table | None:
    """Build the table with a row for each engine and endpoint, in the state that the engine reports, and below it the
    reasons, each once for an engine. None if empty."""
    colours = {"up": "green", "down": "red", "ejected": "red", "unknown": "dim"}
    rows = [
        (f"{stack.name} {engine}" if len(stacks) > 1 else engine, each)
        for stack in stacks
        for engine, found in stack.health().items()
        for each in found
    ]
    if not rows:
        return None
    played = any(each.address != each.endpoint for _, each in rows)
    counted = any(each.connections is not None for _, each in rows)
    names = ("endpoint", *(("stand-in",) if played else ()), "state", "since")
    columns = (
        Column("engine", overflow="fold"),
        Column("pool", overflow="fold"),
        *(Column(x, no_wrap=True) for x in names),
        *([Column("connections", justify="right", no_wrap=True)] if counted else []),
    )
    made = Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1))
    reasons: dict[tuple[str, str], list[str]] = {}
    for engine, each in rows:
        address = () if not played else ("" if each.address == each.endpoint else each.address,)
        state = f"[{colours.get(each.state, 'yellow')}]{each.state}[/]"
        connections = ("" if each.connections is None else str(each.connections),) if counted else ()
        made.add_row(engine, each.pool, each.endpoint, *address, state, _ago(each.since), *connections)
        if each.reason:
            reasons.setdefault((engine, each.reason), []).append(f"{each.pool} {each.endpoint}")
    notes = (f"{engine}, {_first(places)}: {reason}" for (engine, reason), places in reasons.items())
    made.caption, made.caption_justify, made.caption_style = Text("\n".join(notes)), "left", ""
    return made


def _first(places: Sequence[str]) -> str:
    """Name the first places, and count the others."""
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(places[:_NAMED]) + more


def _ago(since: float | None) -> str:
    """Format how long ago `since` (seconds since the epoch) was, in the largest unit of at least 2."""
    if since is None:
        return ""
    seconds = max(time() - since, 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@click.command(epilog="\b\nExamples:\n  lbgen ps\n  lbgen ps shop.yaml --json")
@stack_argument
@options.json_flag
def ps_command(stack: str | None, as_json: bool) -> None:
    """Show what runs: every stack, or one."""
    found = ps(stack_name(stack))
    if stack is None:
        print_findings(docker_unreachable())
    if as_json:
        print_json([each.as_dict() for each in found])
        return
    if not found:
        click.echo("no stack is running; start one with `lbgen up`")
        return
    console().print(stacks_table(found))
    endpoints = health_table(found)
    if endpoints is not None:
        console().print(endpoints)
    for each in found:
        for certificate in each.certificates:
            if not certificate.failure:
                click.echo(f"{each.name}: {certificate.describe(time())}")
        print_findings(each.warnings)
        if each.foreign_owner:
            say(f"{each.name} belongs to {each.foreign_owner}")
        if not each.alive:
            message = f"{each.name}: its supervisor is not running"
            if each.state.runtime == "local" and any(engine.running for engine in each.engines):
                message += "; its engines still serve, and `lbgen up` or `lbgen reload` adopts them"
            say(f"{message}; remove it with: lbgen down {each.name}")


@click.command(
    epilog="\b\nExamples:\n  lbgen down             # your only stack\n  lbgen down shop.yaml\n  lbgen down --all"
)
@stack_argument
@click.option("--all", "every", is_flag=True, help="Every stack of this state directory.")
@options.json_flag
def down_command(stack: str | None, every: bool, as_json: bool) -> None:
    """Stop every process of a stack and remove its state.

    Stacks of containers that another state directory owns, such as another user's, are only removed by their name.
    """
    if every and stack:
        raise click.UsageError("name a stack or use --all, not both")
    names: list[str | None] = [stack_name(stack)]
    if every:
        there = ps()
        names = [each.name for each in there if not each.foreign_owner]
        print_findings(docker_unreachable())
        for each in there:
            if each.foreign_owner:
                say(
                    f"{each.name} is left alone: it belongs to {each.foreign_owner}; to stop it: lbgen down {each.name}"
                )
    stopped = []
    for name in names:
        with nullcontext() if as_json else show_status(f"stopping {name or 'the stack'}"):
            stopped.append(down(name))
    if as_json:
        print_json([each.name for each in stopped])
        return
    for each in stopped:
        what = ", ".join(engine.name for engine in each.engines) or "leftovers"
        click.echo(f"stopped {each.name}: {what}")
