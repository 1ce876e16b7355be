"""`lbgen render`: print or write native configurations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.left_out import summary
from lbgen.cli.output import print_findings, print_json, say

if TYPE_CHECKING:
    from lbgen.cli.json_types import RenderedRecord, TierRecord
    from lbgen.diagnostics import LbgenError
    from lbgen.engines.rendered import Rendered
    from lbgen.plan.tiers import Tier


_T = TypeVar("_T")
_kept: dict[str, object] = {}
_FEW = 3  # files of a folder that are named one by one


@click.command(
    epilog="\b\nExamples:\n  lbgen render shop.yaml -e nginx            # print nginx.conf\n"
    "  lbgen render shop.yaml -o out              # out/<engine>/ for every engine that can serve it\n"
    "  lbgen render shop.yaml --accept all --json"
)
@options.topology
@options.engines
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, allow_dash=True),
    metavar="DIR",
    default="-",
    help="Write the files to DIR/<engine>/; - (the default) prints them, with their names if there are several.",
)
@options.accept
@options.json_flag
@options.watch
def command(
    topology: options.TopologyFiles, chosen: tuple[str, ...], output: str, accept: tuple[str, ...], as_json: bool
) -> None:
    """Write native configurations for every engine that can serve the topology; list the others with the reason.

    With tiers each tier has a folder, shared by its replicas; -e applies to tiers that name no engine. Exit 0 if at
    least one engine rendered and none given by -e refused.
    """
    from lbgen.engines.verdicts import unknown_versions
    from lbgen.plan.tiers import parts

    records: dict[str, RenderedRecord | TierRecord] = {}
    failed = False
    for tier in _keep("tiers", parts(topology.load())):
        done, refused = _keep("rendered", _render(tier, chosen, accept))
        folder = Path(output) / tier.name if output != "-" else None
        if folder is not None:
            for name, rendered in done.items():
                rendered.write(folder / name)
        if as_json:
            found = _records(done, refused)
            records |= {tier.name: {"replicas": list(tier.names), "engines": found}} if tier.name else found
        elif folder is not None:
            _summary(done, folder, tier)
        else:
            _texts(done, tier.name)
        if not as_json:
            print_findings(unknown_versions(tier.plan))
            _notes(done, folder)
        named = bool(chosen) or tier.engine is not None
        if not as_json:
            _reasons(refused, done, all_of_them=named or not done)
        failed = failed or not done or (named and bool(refused))
    if as_json:
        print_json(records)
    if failed:
        raise click.exceptions.Exit(exit_codes.FINDINGS)


def _keep(name: str, data: _T) -> _T:
    """Return `data`, and refer to it until the next of its name: a process ends without taking apart what it has."""
    _kept[name] = data
    return data


def _render(
    tier: Tier, chosen: tuple[str, ...], accept: tuple[str, ...]
) -> tuple[dict[str, Rendered], dict[str, LbgenError]]:
    """Return the files by engine, and the errors of the engines that refuse."""
    import lbgen
    from lbgen.engines.api import engine_names, engines_of

    done: dict[str, Rendered] = {}
    refused: dict[str, LbgenError] = {}
    for name in engines_of(tier, chosen or engine_names()):
        try:
            done[name] = lbgen.render(tier.plan, engine=name, accept=accept)
        except lbgen.LbgenError as stop:
            refused[name] = stop
    return done, refused


def _records(done: dict[str, Rendered], refused: dict[str, LbgenError]) -> dict[str, RenderedRecord]:
    records: dict[str, RenderedRecord] = {
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


def _summary(done: dict[str, Rendered], output: Path, tier: Tier) -> None:
    if tier.name:
        click.echo(f"tier {tier.name}, for {', '.join(tier.names)}:")
    for name, rendered in done.items():
        click.echo(f"{output / name}/  {name} {rendered.version}: {', '.join(name_files(rendered))}")
        differs = dict.fromkeys(str(a.feature) for a in rendered.verdicts if a.verdict.level == "approximate")
        if differs:
            say(f"  approximate on {name}: {', '.join(differs)} (lbgen explain says how)")


def name_files(files: Iterable[str]) -> list[str]:
    """The names of files; a folder of many is named once, with their number."""
    by_folder: dict[str, list[str]] = {}
    for file in files:
        by_folder.setdefault(file.partition("/")[0] if "/" in file else "", []).append(file)
    named: list[str] = []
    for folder, inside in by_folder.items():
        named += [f"{folder}/ ({len(inside)} files)"] if folder and len(inside) > _FEW else inside
    return named


def _notes(done: dict[str, Rendered], folder: Path | None) -> None:
    """Print which engines need the agent, and where private keys were copied to."""
    from lbgen.engines.agent_spec import FILE as AGENT_FILE
    from lbgen.engines.metrics_spec import FILE as METRICS_FILE

    for name, rendered in done.items():
        where = folder / name if folder is not None else "DIR"
        if METRICS_FILE in rendered:
            how = "run it as the engine's user; docs/metrics.md says how each engine is started then"
            click.echo(f"`lbgen agent {where}` serves the metrics of {name}: {how}", err=True)
        if AGENT_FILE in rendered:
            what = f"it does active health checks and slow starts, which {name} cannot"
            how = "start it as the user that may reload the engine (lbgen agent --help has unit files)"
            say(f"{name} needs `lbgen agent {where}` beside it: {what}; {how}")
        keys = [copy.path for copy in rendered.copies if copy.secret and copy.source is not None]
        if keys and folder is not None:
            names = ", ".join(str(folder / name / key) for key in keys)
            say(f"copied for {name}, with mode 0600, so readable only by you: {names}")


def _texts(done: dict[str, Rendered], tier: str) -> None:
    several = bool(tier) or sum(len(rendered) for rendered in done.values()) > 1
    folder = f"{tier}/" if tier else ""
    for name, rendered in done.items():
        for file, text in rendered.items():
            if several:
                click.echo(click.style(f"==> {folder}{name}/{file} <==", bold=True))
            click.echo(text, nl=not text.endswith("\n"))


def _reasons(refused: dict[str, LbgenError], done: Iterable[str], *, all_of_them: bool) -> None:
    for stop in refused.values() if all_of_them else ():
        print_findings(stop.diagnostics)
    for line in summary(done, ((name, stop.diagnostics) for name, stop in refused.items())):
        say(line)
