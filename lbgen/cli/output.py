"""What the commands print: findings as lines or JSON, tables with rich."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from lbgen.cli.encoding import holds_unicode
from lbgen.cli.finding_formats import excerpt
from lbgen.diagnostics import Diagnostic, Severity

if TYPE_CHECKING:
    from rich.console import Console

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
EXCERPTS = 10  # findings whose source line is shown
SCREEN = 40  # findings shown before the rest is counted


def print_json(data: object) -> None:
    """Print one JSON document; non-ASCII characters are escaped where the encoding of standard output lacks them."""
    click.echo(json.dumps(data, indent=2, ensure_ascii=not holds_unicode()))


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """`1 change`, `2 changes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def format_finding(finding: Diagnostic) -> str:
    """Format a finding as one line with a coloured severity (click drops colours outside terminals)."""
    text = str(finding)
    word = f"{finding.severity} {finding.code}"
    return text.replace(word, click.style(word, fg=_COLOURS[finding.severity], bold=True), 1)


def print_findings(findings: Iterable[Diagnostic]) -> None:
    """Print findings on standard error: at most a screen of them, then the number of the others. The first ones have
    their source line."""
    every = list(findings)
    for number, finding in enumerate(every[:SCREEN]):
        click.echo(format_finding(finding), err=True)
        for line in excerpt(finding.span) if number < EXCERPTS else ():
            click.echo(click.style(line, dim=True), err=True)
    if len(every) > SCREEN:
        click.echo(f"... and {len(every) - SCREEN} more (see them with `lbgen check --json`)", err=True)


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that wraps lines on a terminal only."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False)
