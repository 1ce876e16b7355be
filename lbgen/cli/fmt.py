"""`lbgen fmt`: canonical YAML that keeps its comments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.cli import exit_codes
from lbgen.cli.output import pluralize, print_findings, say

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic


@click.command(
    epilog="\b\nExamples:\n  lbgen fmt shop.yaml\n  lbgen fmt --check topologies/*.yaml   # for CI\n"
    "  lbgen fmt --diff shop.yaml\n  lbgen fmt - < shop.yaml > canonical.yaml"
)
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change, and exit 1 if anything would.")
def command(files: tuple[str, ...], check: bool, diff: bool) -> None:
    """Write topologies, profiles and other YAML files of lbgen in one canonical form; `-` is standard input, and is
    printed.

    Comments, anchors, the order of keys and the choice between a block and braces stay, unless a line is longer than
    120 characters. A file stays as it is where a comment would be lost or a value would change (LB136). Exit 0 if all
    is canonical now, 1 if with --check or --diff a file would change, or if one cannot be formatted.
    """
    from lbgen.diagnostics import LbgenError

    found: list[Diagnostic] = []
    changed: list[str] = []
    for file in dict.fromkeys(files):
        try:
            if _format(file, write=not (check or diff), diff=diff):
                changed.append(file)
        except LbgenError as error:
            found += error.diagnostics
    print_findings(found)
    if check or diff:
        for name in changed if check else ():
            say(f"would reformat: {'<stdin>' if name == '-' else name}")
    _report(len(changed), len(set(files)), would=check or diff)
    if found or (changed and (check or diff)):
        raise click.exceptions.Exit(exit_codes.FINDINGS)


def _format(file: str, *, write: bool, diff: bool) -> bool:
    """Format one file; return whether it changes. Raises LbgenError."""
    from lbgen.spec.formatting import format_yaml
    from lbgen.spec.source import read_raw

    name = "<stdin>" if file == "-" else file
    raw = sys.stdin.buffer.read() if file == "-" else read_raw(Path(file))
    text = format_yaml(raw, name)
    changed = text.encode() != raw
    if diff and changed:
        from difflib import unified_diff

        before = raw.decode("utf-8-sig").splitlines(keepends=True)
        click.echo("".join(unified_diff(before, text.splitlines(keepends=True), name, name)), nl=False)
    elif write and file == "-":
        sys.stdout.buffer.write(text.encode())
    elif write and changed:
        _replace(Path(file), text)
    return changed


def _replace(path: Path, text: str) -> None:
    """Write the text in place of the file, which is whole at any moment and keeps its mode; a link stays one."""
    path = path.resolve()
    staged = path.with_name(f".{path.name}.lbgen-fmt")
    try:
        staged.touch(mode=0o600)
        staged.write_text(text, encoding="utf-8", newline="\n")
        staged.chmod(path.stat().st_mode & 0o7777)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def _report(changed: int, every: int, *, would: bool) -> None:
    parts = []
    if changed:
        parts.append(f"{pluralize(changed, 'file')} {'would be ' if would else ''}reformatted")
    if every - changed:
        parts.append(f"{pluralize(every - changed, 'file')} {'already formatted' if would else 'left unchanged'}")
    say(", ".join(parts))
