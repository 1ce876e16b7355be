"""`lbgen up`: engines and stand-in endpoints, started and answering before it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli import options
from lbgen.cli.output import as_json as print_json
from lbgen.cli.output import complain, console
from lbgen.cli.progress import steps
from lbgen.cli.stacks import table

if TYPE_CHECKING:
    from lbgen.api import Stack, Swapped
    from lbgen.spec.load import Topology


@click.command(
    epilog="\b\nExamples:\n  lbgen up shop.yaml               # every engine that can, each on ports of its own\n"
    "  lbgen up shop.yaml -e nginx      # one engine, on the topology's own ports\n"
    "  lbgen up shop.yaml -e envoy --real-endpoints   # no stand-ins\n"
    "  lbgen up shop.yaml --runtime local   # no containers\n"
    "  lbgen up hybrid.yaml --replicas web=5   # a topology with tiers\n"
    "  lbgen up shop.yaml --swap haproxy    # in place of the engine that runs, nothing lost"
)
@options.topology
@options.engines
@click.option(
    "--runtime",
    type=click.Choice(["docker", "local"]),
    help="docker: containers (see lbgen images), the default when a daemon answers; "
    "local: unprivileged processes from PATH or lbgen[engines].",
)
@click.option(
    "--real-endpoints", is_flag=True, help="Forward to the pools' own endpoints; without it stand-ins answer."
)
@click.option("--no-backends", "old_name", is_flag=True, hidden=True)
@click.option(
    "--replicas",
    multiple=True,
    metavar="[TIER=]N",
    help="So many of that tier, instead of what the topology says (repeatable). On a running stack no request is lost.",
)
@click.option(
    "--swap",
    type=options.EngineName(),
    metavar="ENGINE",
    help="Exchange the engine that runs (-e: which one) for this one behind its published ports, once both have been "
    "found to behave the same; containers only.",
)
@click.option(
    "--drain",
    type=options.Seconds(),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long open connections of a replaced container, or of a replica that goes, may live on.",
)
@options.accept
@options.json_flag
def command(
    topology: str,
    chosen: tuple[str, ...],
    runtime: str | None,
    real_endpoints: bool,
    old_name: bool,
    replicas: tuple[str, ...],
    swap: str | None,
    drain: float,
    accept: tuple[str, ...],
    as_json: bool,
) -> None:
    """Start engines and stand-in endpoints; return when every route has answered as the oracle says.

    The stack lives on until `lbgen down`. When up is interrupted or fails, nothing keeps running.
    """
    import lbgen

    loaded = lbgen.load(topology)
    out = console(stderr=True)
    out.quiet = as_json
    with steps(out, "reading the topology") as progress:
        stack = lbgen.up(
            loaded,
            chosen or None,
            swap=swap,
            runtime=runtime,
            backends=not (real_endpoints or old_name),
            accept=accept,
            replicas=counts(loaded, replicas),
            drain=drain,
            progress=progress,
        )
    if as_json:
        print_json(stack.as_dict())
        return
    _report(stack, topology)


def counts(topology: Topology, written: tuple[str, ...]) -> dict[str, int]:
    """Tier -> replicas; the tier may be left out where only one can have several. click.UsageError otherwise."""
    import lbgen

    found: dict[str, int] = {}
    for text in written:
        tier, _, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit():
            raise click.UsageError(f"--replicas wants TIER=N or N, not {text!r}")
        if not tier:
            inner = [each.name for each in lbgen.tiers(topology) if not each.entry]
            if len(inner) != 1:
                there = f"one of {', '.join(inner)}" if inner else "no tier of this topology can have several"
                raise click.UsageError(f"--replicas {text}: of which tier? {there}")
            tier = inner[0]
        found[tier] = int(number)
    return found


def _report(stack: Stack, topology: str) -> None:
    for name, reasons in stack.skipped:
        rest = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
        click.echo(f"left out {name}: {reasons[0].message}{rest}", err=True)
    complain(stack.warnings)
    if stack.unchanged:
        click.echo(f"{stack.name} already runs just so; nothing was changed", err=True)
    if stack.reloaded:
        click.echo(f"{stack.name} took over the change while it runs", err=True)
    if stack.swapped is not None:
        for line in swapped(stack.swapped):
            click.echo(line)
    console().print(table([stack]))
    click.echo(f"stop it with: lbgen down {stack.name}", err=True)


def swapped(cost: Swapped) -> list[str]:
    """What an exchange of engines cost, in lines."""
    first = f" (the first: {cost.first})" if cost.first else ""
    return [
        f"{cost.after} took the place of {cost.before}; verified before: {cost.verified}",
        f"requests failed: {cost.failed} of {cost.requests}{first}; gap: {cost.gap_ms} ms",
        f"sockets dropped: {cost.dropped} of {cost.sockets} held open; "
        f"connections of {cost.before} cut when its time was over: {cost.cut}",
    ]
