"""`lbgen reload`: apply a changed topology to a running stack without losing a request."""

from __future__ import annotations

import click

from lbgen.cli import options, stack_options
from lbgen.cli.output import console, print_findings, print_json
from lbgen.cli.preview import print_preview
from lbgen.cli.progress import steps
from lbgen.cli.stacks import stacks_table


@click.command(
    epilog="\b\nExamples:\n  lbgen reload shop.yaml\n  lbgen reload shop.yaml --name staging   # of another name"
)
@options.topology
@click.option("--name", help="The stack's name (default: the topology's).")
@options.accept
@stack_options.dry_run
@options.json_flag
@options.watch
def command(
    topology: options.TopologyFiles, name: str | None, accept: tuple[str, ...], dry_run: bool, as_json: bool
) -> None:
    """Apply a changed topology to a running stack without losing a request.

    The engines' own checkers validate the new files first. The files are then replaced, each engine reloads in its own
    way, and every route is requested; if one does not answer, the previous files are restored (exit 3). A change that
    needs a restart is refused before anything is changed; `lbgen up` applies it.
    """
    import lbgen

    loaded = topology.load()
    if dry_run:
        print_preview(lbgen.preview(loaded, name=name, accept=accept, by_reload=True), as_json=as_json)
        return
    out = console(stderr=True)
    out.quiet = out.quiet or as_json
    with steps(out, "reading the topology") as progress:
        stack = lbgen.reload(loaded, name=name, accept=accept, progress=progress)
    if as_json:
        print_json(stack.as_dict())
        return
    print_findings(stack.warnings)
    console().print(stacks_table([stack]))
