"""`lbgen reload`: a running stack serves the changed topology, with no request lost."""

from __future__ import annotations

import click

from lbgen.cli import options
from lbgen.cli.output import as_json as print_json
from lbgen.cli.output import complain, console
from lbgen.cli.progress import steps
from lbgen.cli.stacks import table


@click.command(
    epilog="\b\nExamples:\n  lbgen reload shop.yaml\n  lbgen reload shop.yaml --name staging   # of another name"
)
@options.topology
@click.option("--name", help="The stack's name (default: the topology's).")
@options.accept
@options.json_flag
def command(topology: str, name: str | None, accept: tuple[str, ...], as_json: bool) -> None:
    """Have a running stack serve the changed topology, with no request lost.

    The engines' own checkers see the new files first. They are put in place at once, loaded the engine's own way, and
    every route is asked; if one does not answer, the files before come back (exit 3). What an engine can only take over
    by a new start is refused before anything changes; `lbgen up` does that.
    """
    import lbgen

    loaded = lbgen.load(topology)
    out = console(stderr=True)
    out.quiet = as_json
    with steps(out, "reading the topology") as progress:
        stack = lbgen.reload(loaded, name=name, accept=accept, progress=progress)
    if as_json:
        print_json(stack.as_dict())
        return
    complain(stack.warnings)
    console().print(table([stack]))
