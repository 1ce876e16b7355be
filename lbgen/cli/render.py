"""`lbgen render`: native configurations, printed or written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.output import as_json as print_json
from lbgen.cli.output import complain, line_of

if TYPE_CHECKING:
    from lbgen.diagnostics import LbgenError
    from lbgen.engines.rendered import Rendered


@click.command(
    epilog="\b\nExamples:\n  lbgen render shop.yaml -e nginx            # print nginx.conf\n"
    "  lbgen render shop.yaml -o out              # out/<engine>/ for every engine that can\n"
    "  lbgen render shop.yaml --accept all --json"
)
@options.topology
@options.engines
@click.option("-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Write DIR/<engine>/ files.")
@options.accept
@options.json_flag
def command(
    topology: str, chosen: tuple[str, ...], output: Path | None, accept: tuple[str, ...], as_json: bool
) -> None:
    """Write native configurations: every engine that can, the others named with the reason.

    Exit 0 when at least one engine rendered and none named by -e was refused.
    """
    import lbgen
    from lbgen.engines.api import engine_names

    plan = lbgen.plan(lbgen.load(topology))
    done: dict[str, Rendered] = {}
    refused: dict[str, LbgenError] = {}
    for name in chosen or engine_names():
        try:
            done[name] = lbgen.render(plan, engine=name, accept=accept)
        except lbgen.LbgenError as stop:
            refused[name] = stop
    if output is not None:
        for name, rendered in done.items():
            rendered.write(output / name)
    if as_json:
        print_json(_records(done, refused))
    elif output is not None:
        _summary(done, output)
    else:
        _texts(done)
    if not as_json:
        _reasons(refused, all_of_them=bool(chosen) or not done)
    if not done or (chosen and refused):
        raise click.exceptions.Exit(exit_codes.FINDINGS)


def _records(done: dict[str, Rendered], refused: dict[str, LbgenError]) -> dict[str, object]:
    records: dict[str, object] = {
        name: {
            "version": rendered.version,
            "files": dict(rendered),
            "verdicts": [answer.as_dict() for answer in rendered.verdicts],
        }
        for name, rendered in done.items()
    }
    for name, stop in refused.items():
        records[name] = {"files": {}, "verdicts": [], "diagnostics": [d.as_dict() for d in stop.diagnostics]}
    return records


def _summary(done: dict[str, Rendered], output: Path) -> None:
    for name, rendered in done.items():
        click.echo(f"{output / name}/  {name} {rendered.version}: {', '.join(rendered)}")
        differs = dict.fromkeys(str(a.feature) for a in rendered.verdicts if a.verdict.level == "approximate")
        if differs:
            click.echo(f"  approximate on {name}: {', '.join(differs)} (lbgen explain says how)", err=True)


def _texts(done: dict[str, Rendered]) -> None:
    several = sum(len(rendered) for rendered in done.values()) > 1
    for name, rendered in done.items():
        for file, text in rendered.items():
            if several:
                click.echo(click.style(f"==> {name}/{file} <==", bold=True))
            click.echo(text, nl=not text.endswith("\n"))


def _reasons(refused: dict[str, LbgenError], *, all_of_them: bool) -> None:
    for name, stop in refused.items():
        if all_of_them:
            complain(stop.diagnostics)
        else:
            rest = f" (and {len(stop.diagnostics) - 1} more)" if len(stop.diagnostics) > 1 else ""
            click.echo(f"left out {name}: {line_of(stop.diagnostics[0])}{rest}", err=True)
