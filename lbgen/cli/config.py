"""`lbgen config`: the effective topology, each value with where it came from."""

from __future__ import annotations

import click

from lbgen.cli import options
from lbgen.cli.output import print_json


@click.command(
    epilog="\b\nExamples:\n  lbgen config shop.yaml\n"
    "  lbgen config base.yaml -f prod.yaml --set listeners.web.port=81\n"
    "  lbgen config shop.yaml --profile minimal --json"
)
@options.topology
@options.json_flag
def command(topology: options.TopologyFiles, as_json: bool) -> None:
    """Print the topology with profile, overlays, defaults and variables written out; a comment says where each value
    comes from.

    The value of a variable whose name says that it is secret (TOKEN, PASSWORD, KEY ...) stays a reference.
    """
    from lbgen.spec.effective import config

    effective = config(topology.load())
    if as_json:
        print_json([value.as_dict() for value in effective.values])
    else:
        click.echo(str(effective), nl=False)
