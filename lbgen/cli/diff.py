"""`lbgen diff`: what changes between two topologies for clients, as opposed to in their text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.output import console, pluralize, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from lbgen.conformance.topology_diff import Comparison


@click.command(
    epilog="\b\nExamples:\n  lbgen diff shop.yaml shop-new.yaml\n  lbgen diff before.yaml after.yaml --json\n"
    "  git show HEAD:shop.yaml | lbgen diff - shop.yaml"
)
@click.argument("before", type=click.Path(dir_okay=False, allow_dash=True))
@click.argument("after", type=click.Path(dir_okay=False, allow_dash=True))
@options.json_flag
def command(before: str, after: str, as_json: bool) -> None:
    """Show the requests whose answer changes from BEFORE to AFTER, and the changes that no single request can show.

    The requests are those that the rules of either topology distinguish; of each kind of change the smallest request
    is shown. Exit 0 if nothing changes, 4 if something does.
    """
    import lbgen

    options.refuse_second_stdin((before, after))
    one, other = (options.TopologyFiles((path,)).load() for path in (before, after))
    found = lbgen.diff(one, other)
    if as_json:
        print_json(found.as_dict())
    else:
        print_comparison(console(), found)
    raise click.exceptions.Exit(exit_codes.OK if found.same else exit_codes.DIFFERS)


def print_comparison(out: Console, found: Comparison) -> None:
    """Print what changes, for people."""
    for change in found.requests:
        more = f" ({change.count} such requests)" if change.count > 1 else ""
        one, other = (name or "no route" for name in change.routes)
        title = f"route {one}" if one == other else f"{one} -> {other}"
        out.print(f"{change.listener}, {title}{more}", style="bold", markup=False)
        out.print(f"  {change.curl}", markup=False)
        out.print(f"  - {change.before}", style="red", markup=False)
        out.print(f"  + {change.after}\n", style="green", markup=False)
    for field in found.fields:
        out.print(f"{field.field}: {field.before or '(none)'} -> {field.after or '(none)'}", markup=False)
        if field.meaning:
            out.print(f"  {field.meaning}", style="dim", markup=False)
    requests = sum(change.count for change in found.requests)
    changed = f"{pluralize(requests, 'request')} change{'s' if requests == 1 else ''}"
    summary = "nothing changes" if found.same else changed
    rest = pluralize(len(found.fields), "change")
    out.print(f"{summary}, of {found.asked} requests tried; {rest} that no request shows", markup=False)
