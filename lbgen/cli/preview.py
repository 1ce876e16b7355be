"""`lbgen preview`: what `up` or `reload` would do to what runs now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli import exit_codes, options, stack_options
from lbgen.cli.left_out import summary
from lbgen.cli.output import console, pluralize, print_findings, print_json, say

if TYPE_CHECKING:
    from rich.table import Table

    from lbgen.conformance.preview import Preview
    from lbgen.spec.load import Topology

_COLOURS = {"replace with a gap": "red", "remove": "yellow", "no change": "dim"}


@click.command(
    epilog="\b\nExamples:\n  lbgen preview shop.yaml\n  lbgen preview shop.yaml --exit-code || lbgen up shop.yaml\n"
    "  lbgen preview shop.yaml --reload   # of `lbgen reload shop.yaml`\n"
    "  lbgen preview hybrid.yaml --replicas web=5 --json"
)
@options.topology
@options.engines
@stack_options.runtime
@stack_options.real_endpoints
@stack_options.replicas
@click.option("--reload", "by_reload", is_flag=True, help="Of `lbgen reload` instead of `lbgen up`.")
@click.option("--name", help="The stack's name (default: the topology's).")
@options.accept
@click.option("--exit-code", is_flag=True, help=f"Exit {exit_codes.CHANGES} if something would change.")
@options.json_flag
def command(
    topology: options.TopologyFiles,
    chosen: tuple[str, ...],
    runtime: str | None,
    real_endpoints: bool,
    replicas: tuple[str, ...],
    by_reload: bool,
    name: str | None,
    accept: tuple[str, ...],
    exit_code: bool,
    as_json: bool,
) -> None:
    """Show what `lbgen up` would do to each part of a stack, and which requests would be answered differently. Nothing
    is done: nothing is started, stopped, signalled, pulled or built.

    The actions are: create; reload, by the same process or container; replace without a gap; replace with a gap, while
    which requests are refused; remove; no change. The engines' own checkers do not run (see lbgen check). Exit 0; with
    --exit-code 6 if something would change.
    """
    import lbgen

    loaded = topology.load()
    if by_reload and (chosen or runtime or real_endpoints or replicas):
        raise click.UsageError("--reload takes the engines, the runtime and the endpoints as they run")
    found = lbgen.preview(
        loaded,
        chosen or None,
        runtime=runtime,
        backends=not real_endpoints,
        accept=accept,
        name=name,
        replicas=parse_replicas(loaded, replicas),
        by_reload=by_reload,
    )
    print_preview(found, as_json=as_json)
    if exit_code and found.changes:
        raise click.exceptions.Exit(exit_codes.CHANGES)


def print_preview(found: Preview, *, as_json: bool) -> None:
    """Print a preview for people, or as JSON."""
    from lbgen.cli.diff import print_comparison

    if as_json:
        print_json(found.as_dict())
        return
    if found.skipped:
        for line in summary((x.name for x in found.parts if x.kind == "engine"), found.skipped):
            say(line)
    print_findings(found.warnings)
    out = console()
    out.print(_table(found))
    if found.compared is not None:
        print_comparison(out, found.compared)
    click.echo(_sum(found))


def _table(found: Preview) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Column, Table

    made = Table("part", "action", Column("why", overflow="fold"), box=box.SIMPLE_HEAD)
    for part in found.parts:
        colour = _COLOURS.get(part.action, "green")
        made.add_row(f"{part.kind} {part.name}".strip(), f"[{colour}]{part.action}[/]", escape(part.reason))
    return made


def _sum(found: Preview) -> str:
    if not found.changes:
        return f"{found.name} ({found.runtime}): nothing would change"
    number = pluralize(sum(part.action != "no change" for part in found.parts), "part")
    cost = "requests would be refused meanwhile" if found.interrupts else "no request would be lost"
    return f"{found.name} ({found.runtime}): {number} would change; {cost}"


def parse_replicas(topology: Topology, written: tuple[str, ...]) -> dict[str, int]:
    """Return replicas by tier. The tier may be omitted where only one can have replicas. Raises click.UsageError."""
    import lbgen

    found: dict[str, int] = {}
    for text in written:
        tier, _, number = text.rpartition("=")
        if not number.isascii() or not number.isdigit():
            raise click.UsageError(f"--replicas takes TIER=N or N, not {text!r}")
        if not tier:
            inner = [each.name for each in lbgen.tiers(topology) if not each.entry]
            if len(inner) != 1:
                hint = f"name one of {', '.join(inner)}" if inner else "no tier of this topology can have replicas"
                raise click.UsageError(f"--replicas {text} does not name a tier; {hint}")
            tier = inner[0]
        found[tier] = int(number)
    return found
