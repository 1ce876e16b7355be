"""`lbgen schema`: the JSON Schema of a topology, for editors, and of the JSON that commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lbgen.cli import options
from lbgen.cli.output import print_json

TOPOLOGY = "topology"


class Subject(options.OneOf):
    """The topology, or a command that has --json."""

    name = "schema"
    hint = "`lbgen schema --of topology`, or a command that has --json, such as check or 'images build'"

    def words(self) -> tuple[str, ...]:
        """`topology` and the commands."""
        from lbgen.cli.json_types import ANSWERS

        return (TOPOLOGY, *ANSWERS)


@click.command(
    epilog="\b\nExamples:\n  lbgen schema -o lbgen.schema.json\n  lbgen schema --of check\n"
    "  lbgen schema --of 'images build'\n\n"
    "To have an editor help, open a topology with this first line, as `lbgen init` writes it:\n"
    "  # yaml-language-server: $schema=lbgen.schema.json"
)
@click.option(
    "--of",
    "subject",
    type=Subject(),
    default=TOPOLOGY,
    show_default=True,
    metavar="COMMAND",
    help="The JSON that this command prints with --json.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write FILE instead of printing.",
)
def command(subject: str, output: str) -> None:
    """Print the JSON Schema of a topology, or of what a command prints with --json; or write it into a file."""
    if output == "-":
        print_json(schema_of(subject))
        return
    write(Path(output), subject)
    click.echo(f"wrote {output}")


def schema_of(subject: str) -> dict[str, Any]:
    """The schema of a topology, or of the JSON of a command."""
    from lbgen.spec import schema

    if subject == TOPOLOGY:
        return schema.schema()
    from lbgen.cli.json_types import ANSWERS

    return schema.schema_of(ANSWERS[subject], f"lbgen {subject} --json")


def write(path: Path, subject: str = TOPOLOGY) -> None:
    """Write a schema into a file."""
    import json

    path.write_text(json.dumps(schema_of(subject), indent=2) + "\n", encoding="utf-8")
