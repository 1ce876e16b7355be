"""`lbgen logs`: what the engines of a stack printed, each line with its engine's name."""

from __future__ import annotations

import click

from lbgen.cli import options
from lbgen.cli.output import as_json as print_json
from lbgen.cli.stacks import stack_argument, stack_name

_COLOURS = ("cyan", "green", "magenta", "yellow", "blue")


@click.command(epilog="\b\nExamples:\n  lbgen logs\n  lbgen logs shop -e nginx -f")
@stack_argument
@click.option("-e", "--engine", type=options.EngineName(), help="Only this engine.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the stack is down.")
@options.json_flag
def command(stack: str | None, engine: str | None, follow: bool, as_json: bool) -> None:
    """Show what the engines of a stack printed."""
    from lbgen.runtime.api import logs

    lines = logs(stack_name(stack), engine, follow=follow)
    if as_json and not follow:
        print_json([{"source": line.source, "text": line.text} for line in lines])
        return
    colours: dict[str, str] = {}
    for line in lines:
        colour = colours.setdefault(line.source, _COLOURS[len(colours) % len(_COLOURS)])
        click.echo(f"{click.style(f'{line.source:9}', fg=colour)} {line.text}")
