"""`lbgen down`: stop a stack and remove everything that belongs to it."""

from __future__ import annotations

from contextlib import nullcontext

import click

from lbgen.cli import options
from lbgen.cli.output import print_findings, print_json, say, show_status
from lbgen.cli.stacks import stack_argument, stack_name


@click.command(
    epilog="\b\nExamples:\n  lbgen down             # your only stack\n  lbgen down shop.yaml\n  lbgen down --all"
)
@stack_argument
@click.option("--all", "every", is_flag=True, help="Every stack of this state directory.")
@options.json_flag
def command(stack: str | None, every: bool, as_json: bool) -> None:
    """Stop every process of a stack and remove its state.

    Stacks of containers that another state directory owns, such as another user's, are only removed by their name.
    """
    from lbgen.runtime.registry import docker_unreachable
    from lbgen.runtime.stacks import down, ps

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
