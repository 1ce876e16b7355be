"""`lbgen schema`: the JSON Schema of a topology, for editors."""

from __future__ import annotations

import click

from lbgen.cli.output import as_json


@click.command(
    epilog="\b\nExample:\n  lbgen schema > lbgen.schema.json   # then "yaml-language-server: $schema=..." in it"
)
def command() -> None:
    """Print the JSON Schema of a topology."""
    from lbgen.spec.schema import schema

    as_json(schema())
