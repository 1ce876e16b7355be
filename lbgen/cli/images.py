"""`lbgen images`: the images that containers use, and images built from the executables of this host."""

from __future__ import annotations

from typing import Annotated

import click
from msgspec import Meta
from rich.table import Table

from lbgen.cli import options
from lbgen.cli.output import console, print_json, say
from lbgen.engines.api import engine, local_engines
from lbgen.json_types import Printed
from lbgen.runtime.docker import client, images


class ImagesBuilt(Printed, frozen=True):
    """The images that were built."""

    built: tuple[images.BuiltImage, ...]
    failed: Annotated[dict[str, str], Meta(description="By engine: why not.")]
    helper: Annotated[str, Meta(description="The image for stand-ins and the agent.")]


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  lbgen images                 # what `lbgen up --runtime docker` would run\n"
    "  lbgen images build           # from the engines on PATH and in lbgen[engines], without a registry\n"
    "  LBGEN_NGINX_IMAGE=registry.example/nginx:1.31.3 lbgen images",
)
@options.json_flag
@click.pass_context
def images_command(context: click.Context, as_json: bool) -> None:
    """Show the image of each engine and version: named by you, built here, or the official one (pinned)."""
    if context.invoked_subcommand is not None:
        return

    rows = images.list_images(client.connect())
    if as_json:
        print_json(rows)
        return

    made = Table("engine", "version", "image", "from", "here")
    for row in rows:
        here = "[green]yes[/]" if row.present else "[yellow]no[/]" if row.reference else "[red]lbgen images build[/]"
        made.add_row(row.engine, row.version, row.reference or "-", row.origin or "-", here)
    console().print(made)


@images_command.command("build", epilog="\b\nExample:\n  lbgen images build -e nginx -e haproxy")
@options.engines
@options.json_flag
def build(chosen: tuple[str, ...], as_json: bool) -> None:
    """Build images from the engines' executables on this host, for use without a registry; `up` prefers them.

    Engines that are not installed are listed and skipped. Exit 3 if no image was built, or if an engine given by -e
    is missing.
    """
    selected = tuple(engine(name) for name in chosen) or tuple(local_engines().values())
    daemon = client.connect()
    out = console(stderr=True)
    out.quiet = out.quiet or as_json
    with out.status("looking for executables") as status:
        made, failed = images.build(daemon, selected, lambda text: status.update(text))
        helper = images.ensure_helper(daemon, lambda text: status.update(text))
    if as_json:
        print_json(ImagesBuilt(made, dict(failed), helper))
    else:
        for each in made:
            click.echo(f"{each.reference}  {each.bytes / 1e6:.1f} MB  from {each.source}")
        click.echo(helper)
        for name, why in failed:
            say(f"skipped {name}: {why}")
    if not made or (chosen and failed):
        raise SystemExit(3)
