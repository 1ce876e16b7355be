"""`lbgen down`: stop a stack and remove everything that belongs to it."""

from __future__ import annotations

from contextlib import nullcontext

import click

from lbgen.cli import options
from lbgen.cli.output import print_findings, print_json, show_status
from lbgen.cli.stacks import stack_argument, stack_name


@click.command(
    epilog="\b\nExamples:\n  lbgen down             # the only stack\n  lbgen down shop.yaml\n  lbgen down --all"
)
@stack_argument
@click.option("--all", "every", is_flag=True, help="Every stack of this user.")
@options.json_flag
def command(stack: str | None, every: bool, as_json: bool) -> None:
    """Stop every process of a stack and remove its state."""
    from lbgen.api import docker_unreachable, down, ps

    if every and stack:
        raise click.UsageError("name a stack or use --all, not both")
    names = [each.name for each in ps()] if every else [stack_name(stack)]
    if every:
        print_findings(docker_unreachable())
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
