"""`lbgen check`: findings of a topology, verdicts that stop an engine, and problems found by engines' own checkers."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

import click
from msgspec.structs import replace

import lbgen
from lbgen.cli import exit_codes, options, values
from lbgen.cli.findings import FORMATS, github, sarif, way_back
from lbgen.cli.output import pluralize, print_findings, print_json, show_status, tell
from lbgen.cli.topology_files import TopologyFiles, refuse_second_stdin, topology_option, watch_option
from lbgen.diagnostics import Diagnostic, EngineError, LbgenError, Severity, Span
from lbgen.engines.api import Deployed, engine, engines_of
from lbgen.engines.verdicts import unknown_versions
from lbgen.plan.model import Plan
from lbgen.plan.resolve import findings
from lbgen.plan.tiers import parts
from lbgen.runtime.local.check import check

INSTALL = "none of these is installed: pip install 'lbgen[engines]', or the packages of the system"


class Note(NamedTuple):
    """What the text output says beside the findings; `state` of an engine that is not checked, `detail` says why."""

    about: str
    detail: str
    state: str = ""

    @property
    def text(self) -> str:
        """The note without what it is about."""
        return f"{self.state}: {self.detail}" if self.state else self.detail


@click.command(
    epilog="\b\nExamples:\n  lbgen check shop.yaml\n  lbgen check shop.yaml -e nginx -e haproxy\n"
    "  lbgen check shop.yaml --no-engines --json\n  lbgen check shop.yaml --ignore LB266\n"
    "  lbgen check topologies/*.yaml --format github"
)
@topology_option
@click.argument("more", nargs=-1, type=click.Path(dir_okay=False, allow_dash=True), metavar="[TOPOLOGY]...")
@options.engines
@click.option("--no-engines", is_flag=True, help="Do not run the engines' own checkers.")
@options.accept
@click.option(
    "--ignore", multiple=True, type=values.FINDING_CODE, help="Hide warnings and advice of this code (repeatable)."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    help="text (the default), json, sarif (SARIF 2.1.0), or github (annotations of a workflow).",
)
@options.json_flag
@watch_option
def check_command(
    topology: TopologyFiles,
    more: tuple[str, ...],
    chosen: tuple[str, ...],
    no_engines: bool,
    accept: tuple[str, ...],
    ignore: tuple[str, ...],
    form: str,
    as_json: bool,
) -> None:
    """Report findings; then render for each engine and run its own checker on the result, where it is installed.

    Several topologies are checked one after the other. Without -e an engine that refuses the topology or is not
    installed is listed, but is not a finding.
    """
    if more and len(topology.paths) > 1:
        raise click.UsageError("-f lays files over one topology; check the others by themselves")
    refuse_second_stdin((*topology.paths, *more, topology.env_file))
    form = "json" if as_json else form
    every: list[Diagnostic] = []
    for files in (topology, *(replace(topology, paths=(path,)) for path in more)):
        notes: list[Note] = []
        found = _check(files, chosen, accept, ignore, notes, no_engines=no_engines, quiet=form != "text")
        if form == "text":
            print_findings(found)
            for note in notes:
                tell(f"{note.about}: {note.text}")
            tell(f"{files}: {_summary(found)}", err=_has_errors(found))
        else:
            found += _engines_left_out(notes, files, ignore)
        every += found
    if form == "text" and more:
        tell(f"{pluralize(len(more) + 1, 'topology', 'topologies')}: {_summary(every)}", err=_has_errors(every))
    elif form == "github":
        click.echo(github(every), nl=False)
    elif form != "text":
        print_json(sarif(every) if form == "sarif" else [d.as_dict() for d in every])
    if _has_errors(every):
        raise click.exceptions.Exit(exit_codes.FINDINGS)


def _engines_left_out(notes: list[Note], topology: TopologyFiles, ignore: tuple[str, ...]) -> list[Diagnostic]:
    """The engines that the text output lists as left out, as advice for the formats that have findings alone."""
    if "LB308" in ignore:
        return []
    return [
        Diagnostic(
            "LB308", f"{note.about} is {note.state}", Span(str(topology)), hint=note.detail, severity=Severity.ADVICE
        )
        for note in notes
        if note.state
    ]


def _has_errors(found: list[Diagnostic]) -> bool:
    return any(d.severity == "error" for d in found)


def _check(
    topology: TopologyFiles,
    chosen: tuple[str, ...],
    accept: tuple[str, ...],
    ignore: tuple[str, ...],
    notes: list[Note],
    *,
    no_engines: bool,
    quiet: bool,
) -> list[Diagnostic]:
    """Return the findings of one topology; what is no finding goes to `notes`."""
    try:
        loaded = topology.load()
    except lbgen.LbgenError as unreadable:
        return list(unreadable.diagnostics)
    reads_files = not chosen or not all(isinstance(engine(name), Deployed) for name in chosen)
    found = list(findings(loaded, files=reads_files, ignore=ignore))
    for tier in () if _has_errors(found) else parts(loaded):
        try:
            found += unknown_versions(tier.plan)
        except lbgen.LbgenError as too_old:
            found += too_old.diagnostics
            continue
        if no_engines:
            continue
        try:
            names = engines_of(tier, chosen)
        except lbgen.LbgenError as unknown:
            found += unknown.diagnostics
            continue
        named = bool(chosen) or tier.engine is not None
        found += _engines(tier.plan, names, accept, notes, named=named, quiet=quiet)
    return found


def _summary(found: list[Diagnostic]) -> str:
    """Count the findings by severity."""
    numbers = {severity: sum(d.severity == severity for d in found) for severity in ("error", "warning", "advice")}
    parts = [pluralize(numbers["error"], "error")] if numbers["error"] else ["no errors"]
    parts += [pluralize(numbers["warning"], "warning")] if numbers["warning"] else []
    parts += [f"{numbers['advice']} advice"] if numbers["advice"] else []
    return ", ".join(parts)


def _engines(
    plan: Plan, names: tuple[str, ...], accept: tuple[str, ...], notes: list[Note], *, named: bool, quiet: bool
) -> list[Diagnostic]:
    found: list[Diagnostic] = []
    absent = checked = 0
    tier = f"{plan.tier.tier}: " if plan.tier is not None else ""
    for name in names:
        title = f"{tier}{engine(name).title}"
        try:
            with nullcontext() if quiet else show_status(f"{title} checks its configuration"):
                problems = check(plan, name, accept=accept)
        except EngineError as stop:
            if named:
                raise
            notes.append(Note(title, stop.diagnostics[0].message, "not checked"))
            absent += stop.diagnostics[0].code == "LB402"
        except LbgenError as stop:
            if named:
                found += stop.diagnostics
            else:
                notes.append(Note(title, way_back(stop.diagnostics), "left out"))
        else:
            found += problems
            checked += 1
            notes.append(
                Note(title, pluralize(len(problems), "problem") if problems else "its own checker reports no problem")
            )
    if absent and not checked:
        notes.append(Note("engines", INSTALL))
    return found
