"""`--html`: write the report of `explain` and `verify` as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lbgen.conformance.verify.report import Report
    from lbgen.spec.load import Topology


def write_page(
    file: str,
    topology: Topology,
    names: tuple[str, ...],
    *,
    accept: tuple[str, ...] = (),
    report: Report | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Write the page about `topology` on the engines `names` to `file`, or print it for `-`."""
    from lbgen.html.build import build_page
    from lbgen.html.page import to_html

    page = to_html(build_page(topology, names, accept, report, notes))
    if file == "-":
        click.echo(page, nl=False)
        return
    Path(file).write_text(page, encoding="utf-8")
    click.echo(f"wrote {file}", err=True)
