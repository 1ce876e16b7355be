"""`lbgen ps`: which stacks run, where, and how they are."""

from __future__ import annotations

import click

from lbgen.cli import options
from lbgen.cli.output import as_json as print_json
from lbgen.cli.output import complain, console
from lbgen.cli.stacks import health, stack_argument, stack_name, table


@click.command(epilog="\b\nExamples:\n  lbgen ps\n  lbgen ps shop.yaml --json")
@stack_argument
@options.json_flag
def command(stack: str | None, as_json: bool) -> None:
    """Show what runs: every stack, or one."""
    from lbgen.api import ps, unseen

    found = ps(stack_name(stack))
    if stack is None:
        complain(unseen())
    if as_json:
        print_json([each.as_dict() for each in found])
        return
    if not found:
        click.echo("nothing runs; start something with `lbgen up`")
        return
    console().print(table(found))
    checked = health(found)
    if checked is not None:
        console().print(checked)
    for each in found:
        if not each.alive:
            message = f"{each.name}: nothing watches over it any more"
            if each.state.runtime == "local" and any(engine.running for engine in each.engines):
                message += "; its engines serve on, and lbgen up or lbgen reload takes it over"
            click.echo(f"{message}; clear it with: lbgen down {each.name}", err=True)
