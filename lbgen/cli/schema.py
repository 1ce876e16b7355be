"""`lbgen schema`: the JSON Schema of a topology, for editors."""

from __future__ import annotations

import click

from lbgen.cli.output import as_json


@click.command(
    epilog="\b\nExample:\n  lbgen schema > lbgen.schema.json\n\n"
    "Then open a topology with this first line:\n  # yaml-language-server: $schema=lbgen.schema.json"
)
def command() -> None:
    """Print the JSON Schema of a topology."""
    from lbgen.spec.schema import schema

    as_json(schema())
