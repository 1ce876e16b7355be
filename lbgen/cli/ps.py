"""`lbgen ps`: the running stacks, their URLs and their health."""

from __future__ import annotations

import click

from lbgen.cli import options
from lbgen.cli.output import console, print_findings, print_json, say
from lbgen.cli.stacks import health_table, stack_argument, stack_name, stacks_table


@click.command(epilog="\b\nExamples:\n  lbgen ps\n  lbgen ps shop.yaml --json")
@stack_argument
@options.json_flag
def command(stack: str | None, as_json: bool) -> None:
    """Show what runs: every stack, or one."""
    from lbgen.runtime.registry import docker_unreachable
    from lbgen.runtime.stacks import ps

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
        if each.foreign_owner:
            say(f"{each.name} belongs to {each.foreign_owner}")
        if not each.alive:
            message = f"{each.name}: its supervisor is not running"
            if each.state.runtime == "local" and any(engine.running for engine in each.engines):
                message += "; its engines still serve, and `lbgen up` or `lbgen reload` adopts them"
            say(f"{message}; remove it with: lbgen down {each.name}")
