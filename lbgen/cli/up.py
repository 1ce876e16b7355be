"""`lbgen up`: start engines and stand-in endpoints, and wait until they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli import options, stack_options
from lbgen.cli.left_out import summary
from lbgen.cli.output import console, print_findings, print_json, say
from lbgen.cli.preview import parse_replicas, print_preview
from lbgen.cli.progress import steps
from lbgen.cli.stacks import stacks_table

if TYPE_CHECKING:
    from lbgen.api import Stack, SwapResult


@click.command(
    epilog="\b\nExamples:\n  lbgen up shop.yaml               # every engine that can serve it, each on its own ports\n"
    "  lbgen up shop.yaml -e nginx      # one engine, on the topology's own ports\n"
    "  lbgen up shop.yaml -e envoy --real-endpoints   # no stand-ins\n"
    "  lbgen up shop.yaml --runtime local   # no containers\n"
    "  lbgen up hybrid.yaml --replicas web=5   # a topology with tiers\n"
    "  lbgen up shop.yaml --swap haproxy    # replace the running engine without losing a request"
)
@options.topology
@options.engines
@stack_options.runtime
@stack_options.real_endpoints
@stack_options.replicas
@click.option(
    "--swap",
    type=options.EngineName(),
    metavar="ENGINE",
    help="Replace the running engine (-e names it if there are several) by this one behind the same published ports, "
    "after verifying that both behave the same; containers only.",
)
@click.option(
    "--drain",
    type=options.Seconds(),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long open connections of a replaced container or of a removed replica may last.",
)
@options.accept
@stack_options.dry_run
@options.json_flag
def command(
    topology: options.TopologyFiles,
    chosen: tuple[str, ...],
    runtime: str | None,
    real_endpoints: bool,
    replicas: tuple[str, ...],
    swap: str | None,
    drain: float,
    accept: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start engines and stand-in endpoints; return when every route answers as the oracle predicts.

    The stack runs until `lbgen down`. If `up` fails or is interrupted, it stops what it started.
    """
    import lbgen

    loaded = topology.load()
    if dry_run:
        if swap is not None:
            raise click.UsageError(
                "--dry-run does not try a --swap, which verifies first and changes nothing if it fails"
            )
        print_preview(
            lbgen.preview(
                loaded,
                chosen or None,
                runtime=runtime,
                backends=not real_endpoints,
                accept=accept,
                replicas=parse_replicas(loaded, replicas),
            ),
            as_json=as_json,
        )
        return
    out = console(stderr=True)
    out.quiet = out.quiet or as_json
    with steps(out, "reading the topology") as progress:
        stack = lbgen.up(
            loaded,
            chosen or None,
            swap=swap,
            runtime=runtime,
            backends=not real_endpoints,
            accept=accept,
            replicas=parse_replicas(loaded, replicas),
            drain=drain,
            progress=progress,
        )
    if as_json:
        print_json(stack.as_dict())
        return
    _report(stack)


def _report(stack: Stack) -> None:
    for line in summary((each.name for each in stack.engines), stack.skipped):
        say(line)
    print_findings(stack.warnings)
    if stack.unchanged:
        say(f"{stack.name} is up to date; nothing was changed")
    if stack.reloaded:
        say(f"reloaded {stack.name} without a restart")
    if stack.swapped is not None:
        for line in describe_swap(stack.swapped):
            click.echo(line)
    console().print(stacks_table([stack]))
    say(f"stop it with: lbgen down {stack.name}")


def describe_swap(cost: SwapResult) -> list[str]:
    """Return lines that say what replacing an engine cost."""
    first = f" (the first: {cost.first})" if cost.first else ""
    return [
        f"{cost.after} replaced {cost.before}; verification: {cost.verified}",
        f"requests failed: {cost.failed} of {cost.requests}{first}; gap: {cost.gap_ms} ms",
        f"sockets dropped: {cost.dropped} of {cost.sockets} held open; "
        f"connections of {cost.before} still open when the drain time ended: {cost.cut}",
    ]
