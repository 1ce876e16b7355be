"""How the commands print: findings as lines or JSON, tables by rich where people look."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from lbgen.cli.encoding import holds_unicode
from lbgen.diagnostics import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from lbgen.diagnostics import Diagnostic

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
SCREEN = 40  # findings shown before the rest is counted


def as_json(data: object) -> None:
    """One JSON document on standard output; escaped where that cannot hold every character."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=not holds_unicode()))


def count(number: int, noun: str, plural: str = "") -> str:
    """`1 change`, `2 changes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def line_of(finding: Diagnostic) -> str:
    """`finding` as one line with the severity coloured (colours go away when the output is no terminal)."""
    text = str(finding)
    word = f"{finding.severity} {finding.code}"
    return text.replace(word, click.style(word, fg=_COLOURS[finding.severity], bold=True), 1)


def complain(findings: Iterable[Diagnostic]) -> None:
    """Findings on standard error, at most a screen of them, then how many more there are."""
    every = list(findings)
    for finding in every[:SCREEN]:
        click.echo(line_of(finding), err=True)
    if len(every) > SCREEN:
        click.echo(f"... and {len(every) - SCREEN} more (see them with `lbgen check --json`)", err=True)


def console(*, stderr: bool = False) -> Console:
    """A rich console that never wraps what a pipe reads."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False)
