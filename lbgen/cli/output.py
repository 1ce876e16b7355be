"""What the commands print: findings as lines or JSON, tables with rich, progress; in any encoding of the terminal."""

from __future__ import annotations

import codecs
import io
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import click
import msgspec
from rich.console import Console

from lbgen.cli.findings import excerpt
from lbgen.codes import CODES
from lbgen.diagnostics import Diagnostic, Severity

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.ADVICE: "cyan"}
EXCERPTS = 10  # findings whose source line is shown
SCREEN = 40  # findings shown before the rest is counted
_VERBOSITY = "lbgen.verbosity"
_HANDLER = "lbgen"
_ALIKE = {
    "\u2026": "...",
    "\u2192": "->",
    "\u00d7": "x",
    "\u00a0": " ",
    **dict.fromkeys("\u2013\u2014", "-"),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u201c\u201d", '"'),
    **{chr(code): "*" for code in range(0x2800, 0x2900)},  # spinners
    **{chr(code): "+" for code in range(0x2500, 0x2580)},  # boxes
    **dict.fromkeys("\u2500\u2501\u2550", "-"),
    **dict.fromkeys("\u2502\u2503\u2551", "|"),
}
_ASCII = str.maketrans(_ALIKE)


def print_json(data: object) -> None:
    """Print data, also data classes, as one JSON document; non-ASCII characters are escaped where the encoding of
    standard output lacks them."""
    click.echo(json.dumps(msgspec.to_builtins(data), indent=2, ensure_ascii=not holds_unicode()))


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """`1 change`, `2 changes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def format_finding(finding: Diagnostic) -> str:
    """Format a finding as one line with a coloured severity (click drops colours outside terminals)."""
    text = str(finding)
    word = f"{finding.severity} {finding.code}"
    return text.replace(word, click.style(word, fg=_COLOURS[finding.severity], bold=True), 1)


class Verbosity(StrEnum):
    """How much a command prints beside its result."""

    QUIET = "quiet"  # errors alone
    NORMAL = "normal"
    VERBOSE = "verbose"  # also causes and remedies of findings, and the time of each step


def verbosity() -> Verbosity:
    """What --quiet and --verbose of the command that runs ask for."""
    context = click.get_current_context(silent=True)
    return Verbosity.NORMAL if context is None else context.meta.get(_VERBOSITY, Verbosity.NORMAL)


def set_verbosity(context: click.Context, wanted: Verbosity) -> None:
    """Keep it for the command that runs. Raises click.UsageError when both are asked for."""
    if context.meta.setdefault(_VERBOSITY, wanted) is not wanted:
        raise click.UsageError("--quiet and --verbose exclude each other", context)


def tell(text: str, *, err: bool = False) -> None:
    """Print what is left out with --quiet, on standard output or error."""
    if verbosity() is not Verbosity.QUIET:
        click.echo(text, err=err)


def say(text: str) -> None:
    """Print a note on standard error, unless --quiet."""
    tell(text, err=True)


def print_findings(findings: Iterable[Diagnostic]) -> None:
    """Print findings on standard error: at most a screen of them, then the number of the others. The first ones have
    their source line. With --quiet errors alone; with --verbose all, with their causes and remedies."""
    level = verbosity()
    every = [x for x in findings if level is not Verbosity.QUIET or x.severity is Severity.ERROR]
    shown = every if level is Verbosity.VERBOSE else every[:SCREEN]
    for number, finding in enumerate(shown):
        click.echo(format_finding(finding), err=True)
        for line in excerpt(finding.span) if number < EXCERPTS else ():
            click.echo(click.style(line, dim=True), err=True)
        for line in _meaning(finding.code) if level is Verbosity.VERBOSE else ():
            click.echo(click.style(f"  {line}", dim=True), err=True)
    if len(every) > len(shown):
        click.echo(f"... and {len(every) - SCREEN} more (-v shows all)", err=True)


def _meaning(code: str) -> tuple[str, ...]:
    """Cause and remedy of a code."""
    return f"cause: {CODES[code].cause}", f"remedy: {CODES[code].remedy}"


@contextmanager
def show_status(doing: str) -> Iterator[None]:
    """Show on a terminal what the block does, unless --quiet; rich is imported only then."""
    if verbosity() is Verbosity.QUIET or not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(doing):
        yield


def console(*, stderr: bool = False) -> Console:
    """Return a rich console that wraps lines on a terminal only; that of standard error is silent with --quiet."""
    stream = sys.stderr if stderr else sys.stdout
    quiet = stderr and verbosity() is Verbosity.QUIET
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False, quiet=quiet)


def adapt_output() -> None:
    """Make standard output and error replace characters that their encoding lacks."""
    codecs.register_error(_HANDLER, _replace_characters)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def holds_unicode() -> bool:
    """Tell whether standard output can encode every character."""
    return codecs.lookup(getattr(sys.stdout, "encoding", None) or "ascii").name.startswith("utf")


def _replace_characters(error: UnicodeError) -> tuple[str, int]:
    """Replace characters by similar ASCII, else by an escape such as \\xe9 (an error handler for codecs)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ASCII)
    return text.encode("ascii", "backslashreplace").decode("ascii"), error.end
