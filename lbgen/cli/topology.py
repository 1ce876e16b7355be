"""`lbgen init`, `fmt`, `config`: write a starter topology, canonical YAML, or a topology with all its values."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
from difflib import unified_diff
from pathlib import Path

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.output import pluralize, print_findings, print_json, say
from lbgen.cli.topology_files import TopologyFiles, topology_option
from lbgen.diagnostics import Diagnostic, LbgenError
from lbgen.plan.effective import config
from lbgen.runtime.common.certificates import LIFE, write_self_signed
from lbgen.spec.formatting import format_yaml
from lbgen.spec.schema import TITLE, schema
from lbgen.spec.source import read_raw
from lbgen.spec.starter import DEFAULT, SCHEMA_FILE, first_command, starter, starters

NAMES = ("localhost", "127.0.0.1", "::1")  # of the test certificate


@click.command(
    epilog="\b\nExamples:\n  lbgen init shop.yaml && lbgen check shop.yaml\n"
    "  lbgen init --template tls && lbgen up topology.yaml\n  lbgen init --template gateway -"
)
@click.argument("file", default="topology.yaml", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--template",
    type=click.Choice(starters()),
    default=DEFAULT,
    show_default=True,
    help="minimal: two pools, routes by path; canary: shares and testers of a new version; gateway: services by path, "
    "limits, retries, CORS; l4: TCP, and TLS by server name; tenants: many hosts; tls: HTTPS and a redirect to it; "
    "websocket: long connections with sticky endpoints.",
)
@click.option("--force", is_flag=True, help="Overwrite FILE when it exists.")
def init_command(file: str, template: str, force: bool) -> None:
    """Write a commented starter topology to FILE (topology.yaml); `-` prints it.

    It also writes lbgen.schema.json for editors beside FILE, and the files that the template refers to unless they
    exist: for tls a test certificate for localhost, for websocket the secret of its sticky cookie.
    """
    text = starter(template)
    if file == "-":
        click.echo(text, nl=False)
        return
    path = Path(file)
    if path.exists() and not force:
        click.echo(f"{path} exists; choose another name, or use --force to overwrite it", err=True)
        raise click.exceptions.Exit(exit_codes.USAGE)
    path.write_text(text, encoding="utf-8")
    click.echo(f"wrote {path}")
    _write_schema(path.parent / SCHEMA_FILE)
    if template == "tls":
        _write_certificate(path.parent / "certs/site.crt", path.parent / "certs/site.key")
    if template == "websocket":
        _write_secret(path.parent / "secrets/sticky.key")
    click.echo(f"next: {first_command(template, shlex.quote(str(path)))}")


def _write_schema(path: Path) -> None:
    """Write the schema unless a file of that name has other contents."""
    if path.exists():
        try:
            title = json.loads(path.read_text(encoding="utf-8")).get("title")
        except (ValueError, AttributeError):
            title = None
        if title != TITLE:
            click.echo(
                f"{path} is not a schema of lbgen, so it stays; editors read the file named in line 1",
                err=True,
            )
            return
    path.write_text(json.dumps(schema(), indent=2) + "\n", encoding="utf-8")
    click.echo(f"wrote {path} for editors")


def _write_certificate(certificate: Path, key: Path) -> None:
    if certificate.exists() or key.exists():
        click.echo(f"{certificate.parent} already has a certificate or key, so it stays")
        return
    certificate.parent.mkdir(exist_ok=True)
    write_self_signed(certificate, key, NAMES)
    what = f"self-signed for {', '.join(NAMES)}, valid for {LIFE.days} days, for tests only"
    click.echo(f"wrote {certificate} and {key}: {what}")


def _write_secret(path: Path) -> None:
    if path.exists():
        click.echo(f"{path} exists, so it stays")
        return
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")
    click.echo(f"wrote {path}: the secret of the sticky cookie")


@click.command(
    epilog="\b\nExamples:\n  lbgen fmt shop.yaml\n  lbgen fmt --check topologies/*.yaml   # for CI\n"
    "  lbgen fmt --diff shop.yaml\n  lbgen fmt - < shop.yaml > canonical.yaml"
)
@click.argument("files", nargs=-1, required=True, type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE...")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change, and exit 1 if anything would.")
def fmt_command(files: tuple[str, ...], check: bool, diff: bool) -> None:
    """Write topologies, profiles and other YAML files of lbgen in one canonical form; `-` is standard input, and is
    printed.

    Comments, anchors, the order of keys and the choice between a block and braces stay, unless a line is longer than
    120 characters. A file stays as it is where a comment would be lost or a value would change (LB136). Exit 0 if all
    is canonical now, 1 if with --check or --diff a file would change, or if one cannot be formatted.
    """
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
    name = "<stdin>" if file == "-" else file
    raw = sys.stdin.buffer.read() if file == "-" else read_raw(Path(file))
    text = format_yaml(raw, name)
    changed = text.encode() != raw
    if diff and changed:
        before = raw.decode("utf-8-sig").splitlines(keepends=True)
        click.echo("".join(unified_diff(before, text.splitlines(keepends=True), name, name)), nl=False)
    elif write and file == "-":
        sys.stdout.buffer.write(text.encode())
    elif write and changed:
        _replace_file(Path(file), text)
    return changed


def _replace_file(path: Path, text: str) -> None:
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


@click.command(
    epilog="\b\nExamples:\n  lbgen config shop.yaml\n"
    "  lbgen config base.yaml -f prod.yaml --set listeners.web.port=81\n"
    "  lbgen config shop.yaml --profile minimal --json"
)
@topology_option
@options.json_flag
def config_command(topology: TopologyFiles, as_json: bool) -> None:
    """Print the topology with profile, overlays, defaults and variables written out; a comment says where each value
    comes from.

    The value of a variable whose name says that it is secret (TOKEN, PASSWORD, KEY ...) stays a reference.
    """
    effective = config(topology.load())
    if as_json:
        print_json([value.as_dict() for value in effective.values])
    else:
        click.echo(str(effective), nl=False)
