"""The reference of commands for docs/cli.md, from click."""

from __future__ import annotations

import click
from click.testing import CliRunner

from lbgen.cli.main import VERBS, group


def commands() -> str:
    """Return what `lbgen --help` and `lbgen VERB --help` print."""
    parts = [_help()]
    for verb in VERBS:
        parts.append(f"## `lbgen {verb}`\n\n{_help(verb)}")
        command = group.get_command(click.Context(group), verb)
        for name in command.commands if isinstance(command, click.Group) else ():
            parts.append(f"### `lbgen {verb} {name}`\n\n{_help(verb, name)}")
    return "\n\n".join(parts)


def _help(*words: str) -> str:
    done = CliRunner().invoke(group, [*words, "--help"], prog_name="lbgen", env={"COLUMNS": "80"})
    return f"```text\n{done.output.rstrip()}\n```"
