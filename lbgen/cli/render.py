"""`lbgen render`: print or write native configurations."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import click
from msgspec import UNSET, Meta, UnsetType

import lbgen
from lbgen.cli import exit_codes, options
from lbgen.cli.findings import summary
from lbgen.cli.output import print_findings, print_json, say
from lbgen.cli.topology_files import TopologyFiles, topology_option, watch_option
from lbgen.diagnostics import LbgenError
from lbgen.engines.agent_spec import FILE as AGENT_FILE
from lbgen.engines.api import engines_of
from lbgen.engines.metrics_spec import FILE as METRICS_FILE
from lbgen.engines.rendered import Rendered
from lbgen.engines.verdicts import VerdictRecord, unknown_versions
from lbgen.json_types import FindingRecord, Printed
from lbgen.plan.tiers import Tier, parts

_FEW = 3  # files of a folder that are named one by one


class RenderedFiles(Printed, frozen=True, kw_only=True):
    """The files of one engine, or why it refuses."""

    version: Annotated[str | UnsetType, Meta(description="Not where the engine refuses.")] = UNSET
    files: Annotated[dict[str, str], Meta(description="Name, relative to the engine's folder, to text.")]
    verdicts: list[VerdictRecord]
    diagnostics: Annotated[list[FindingRecord] | UnsetType, Meta(description="Why the engine refuses.")] = UNSET


class RenderedTier(Printed, frozen=True):
    """The files of one tier."""

    replicas: tuple[str, ...]
    engines: dict[str, RenderedFiles]


@click.command(
    epilog="\b\nExamples:\n  lbgen render shop.yaml -e nginx            # print nginx.conf\n"
    "  lbgen render shop.yaml -o out              # out/<engine>/ for every engine that can serve it\n"
    "  lbgen render shop.yaml --accept all --json"
)
@topology_option
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
@watch_option
def render_command(
    topology: TopologyFiles, chosen: tuple[str, ...], output: str, accept: tuple[str, ...], as_json: bool
) -> None:
    """Write native configurations for every engine that can serve the topology; list the others with the reason.

    With tiers each tier has a folder, shared by its replicas; -e applies to tiers that name no engine. Exit 0 if at
    least one engine rendered and none given by -e refused.
    """
    records: dict[str, RenderedFiles | RenderedTier] = {}
    failed = False
    for tier in parts(topology.load()):
        done, refused = _render(tier, chosen, accept)
        folder = Path(output) / tier.name if output != "-" else None
        if folder is not None:
            for name, rendered in done.items():
                rendered.write(folder / name)
        if as_json:
            found = _records(done, refused)
            records |= {tier.name: RenderedTier(tier.names, found)} if tier.name else found
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


def _render(
    tier: Tier, chosen: tuple[str, ...], accept: tuple[str, ...]
) -> tuple[dict[str, Rendered], dict[str, LbgenError]]:
    """Return the files by engine, and the errors of the engines that refuse."""
    done: dict[str, Rendered] = {}
    refused: dict[str, LbgenError] = {}
    for name in engines_of(tier, chosen):
        try:
            done[name] = lbgen.render(tier.plan, engine=name, accept=accept)
        except lbgen.LbgenError as stop:
            refused[name] = stop
    return done, refused


def _records(done: dict[str, Rendered], refused: dict[str, LbgenError]) -> dict[str, RenderedFiles]:
    found = {}
    for name, each in done.items():
        verdicts = [answer.as_dict() for answer in each.verdicts]
        found[name] = RenderedFiles(version=each.version, files=dict(each), verdicts=verdicts)
    for name, stop in refused.items():
        reasons = [d.as_dict() for d in stop.diagnostics]
        found[name] = RenderedFiles(files={}, verdicts=[], diagnostics=reasons)
    return found


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
    for name, rendered in done.items():
        where = folder / name if folder is not None else "DIR"
        if METRICS_FILE in rendered:
            how = "run it as the engine's user; docs/metrics.md says how each engine is started then"
            click.echo(f"`lbgen agent {where}` serves the metrics of {name}: {how}", err=True)
        if AGENT_FILE in rendered:
            what = f"it does active health checks and slow starts, which {name} cannot"
            how = "start it as the user that may reload the engine (lbgen agent --help has unit files)"
            say(f"{name} needs `lbgen agent {where}` beside it: {what}; {how}")
        keys = [copy.path for copy in rendered.copies if copy.secret and copy.is_copied]
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
