"""`lbgen init`: a commented starter topology."""

from __future__ import annotations

from pathlib import Path

import click

from lbgen.cli import exit_codes


@click.command(epilog="\b\nExample:\n  lbgen init shop.yaml && lbgen check shop.yaml")
@click.argument("file", default="topology.yaml", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--force", is_flag=True, help="Overwrite FILE when it exists.")
def command(file: Path, force: bool) -> None:
    """Write a commented starter topology to FILE (topology.yaml)."""
    from lbgen.spec.starter import starter

    if file.exists() and not force:
        click.echo(f"{file} exists; choose another name, or overwrite it with --force", err=True)
        raise click.exceptions.Exit(exit_codes.USAGE)
    file.write_text(starter(), encoding="utf-8")
    click.echo(f"wrote {file}; next: lbgen check {file} && lbgen up {file}")
