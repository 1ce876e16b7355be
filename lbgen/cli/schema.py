"""`lbgen schema`: the JSON Schema of a topology, for editors."""

from __future__ import annotations

from pathlib import Path

import click

from lbgen.cli.output import print_json


@click.command(
    epilog="\b\nExample:\n  lbgen schema -o lbgen.schema.json\n\n"
    "Then open a topology with this first line, as `lbgen init` writes it:\n"
    "  # yaml-language-server: $schema=lbgen.schema.json"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write FILE instead of printing.",
)
def command(output: str) -> None:
    """Print the JSON Schema of a topology, or write it into a file."""
    from lbgen.spec.schema import schema

    if output == "-":
        print_json(schema())
        return
    write(Path(output))
    click.echo(f"wrote {output}")


def write(path: Path) -> None:
    """Write the schema into a file."""
    import json

    from lbgen.spec.schema import schema

    path.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
