"""`lbgen check`: findings of a topology, verdicts that stop an engine, and problems found by engines' own checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.output import console, pluralize, print_findings, print_json

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.plan.model import Plan


@click.command(
    epilog="\b\nExamples:\n  lbgen check shop.yaml\n  lbgen check shop.yaml -e nginx -e haproxy\n"
    "  lbgen check shop.yaml --no-engines --json\n  lbgen check shop.yaml --ignore LB266"
)
@options.topology
@options.engines
@click.option("--no-engines", is_flag=True, help="Do not run the engines' own checkers.")
@options.accept
@click.option(
    "--ignore", multiple=True, type=options.FindingCode(), help="Hide warnings and advice of this code (repeatable)."
)
@options.json_flag
def command(
    topology: options.TopologyFiles,
    chosen: tuple[str, ...],
    no_engines: bool,
    accept: tuple[str, ...],
    ignore: tuple[str, ...],
    as_json: bool,
) -> None:
    """Report findings; then render for each engine and run its own checker on the result, where it is installed.

    Without -e an engine that refuses the topology or is not installed is listed, but is not a finding.
    """
    import lbgen
    from lbgen.engines.tiers import engines_of
    from lbgen.plan.resolve import findings
    from lbgen.plan.tiers import parts

    notes: list[tuple[str, str]] = []
    try:
        loaded = topology.load()
    except lbgen.LbgenError as unreadable:
        found = list(unreadable.diagnostics)
    else:
        found = list(findings(loaded, files=True, ignore=ignore))
        for tier in () if any(d.severity == "error" for d in found) else parts(loaded):
            notes += _left_to_engine(tier.plan)
            if no_engines:
                continue
            try:
                names = engines_of(tier, chosen)
            except lbgen.LbgenError as unknown:
                found += unknown.diagnostics
                continue
            found += _engines(tier.plan, names, accept, notes, quiet=as_json)
    if as_json:
        print_json([d.as_dict() for d in found])
    else:
        print_findings(found)
        for name, note in notes:
            click.echo(f"{name}: {note}")
        click.echo(f"{topology}: {_summary(found)}", err=any(d.severity == "error" for d in found))
    if any(d.severity == "error" for d in found):
        raise click.exceptions.Exit(exit_codes.FINDINGS)


def _left_to_engine(plan: Plan) -> list[tuple[str, str]]:
    """One note for each listener that leaves something to its engine."""
    return [
        (
            f"listener {each.name}",
            f"{', '.join(each.guarantees.left)} left to the engine; lbgen explain says what it does",
        )
        for each in plan.listeners
        if each.guarantees.left
    ]


def _summary(found: list[Diagnostic]) -> str:
    """Count the findings by severity."""
    numbers = {severity: sum(d.severity == severity for d in found) for severity in ("error", "warning", "advice")}
    parts = [pluralize(numbers["error"], "error")] if numbers["error"] else ["no errors"]
    parts += [pluralize(numbers["warning"], "warning")] if numbers["warning"] else []
    parts += [f"{numbers['advice']} advice"] if numbers["advice"] else []
    return ", ".join(parts)


def _engines(
    plan: Plan, chosen: tuple[str, ...], accept: tuple[str, ...], notes: list[tuple[str, str]], *, quiet: bool
) -> list[Diagnostic]:
    from lbgen.diagnostics import EngineError, LbgenError
    from lbgen.engines.api import engine, engine_names
    from lbgen.runtime.local.check import check

    found: list[Diagnostic] = []
    out = console(stderr=True)
    out.quiet = quiet
    tier = f"{plan.tier.tier}: " if plan.tier is not None else ""
    for name in chosen or engine_names():
        title = f"{tier}{engine(name).title}"
        try:
            with out.status(f"{title} checks its configuration"):
                problems = check(plan, name, accept=accept)
        except EngineError as stop:
            if chosen:
                raise
            notes.append((title, f"not checked: {stop.diagnostics[0].message}"))
        except LbgenError as stop:
            if chosen:
                found += stop.diagnostics
            else:
                more = f" (and {len(stop.diagnostics) - 1} more)" if len(stop.diagnostics) > 1 else ""
                notes.append((title, f"skipped: {stop.diagnostics[0].message}{more}"))
        else:
            found += problems
            notes.append(
                (title, pluralize(len(problems), "problem") if problems else "its own checker reports no problem")
            )
    return found
