"""`lbgen init`: write a commented starter topology, its JSON Schema, and the files that it refers to."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from lbgen.cli import exit_codes
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
def command(file: str, template: str, force: bool) -> None:
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
    from lbgen.cli.schema import write
    from lbgen.spec.schema import TITLE

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
    write(path)
    click.echo(f"wrote {path} for editors")


def _write_certificate(certificate: Path, key: Path) -> None:
    from lbgen.runtime.common.certificates import LIFE, write_self_signed

    if certificate.exists() or key.exists():
        click.echo(f"{certificate.parent} already has a certificate or key, so it stays")
        return
    certificate.parent.mkdir(exist_ok=True)
    write_self_signed(certificate, key, NAMES)
    what = f"self-signed for {', '.join(NAMES)}, valid for {LIFE.days} days, for tests only"
    click.echo(f"wrote {certificate} and {key}: {what}")


def _write_secret(path: Path) -> None:
    import secrets

    if path.exists():
        click.echo(f"{path} exists, so it stays")
        return
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(secrets.token_hex(32) + "\n", encoding="utf-8")
    click.echo(f"wrote {path}: the secret of the sticky cookie")
