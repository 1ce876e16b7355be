"""`lbgen explain`: verdicts as a table, and the mapping between rendered lines and topology fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Meta

import lbgen
from lbgen.cli import exit_codes, options
from lbgen.cli.explain_tables import explain_costs, explain_versions, print_verdicts
from lbgen.cli.output import print_json, say
from lbgen.cli.topology_files import TopologyFiles, topology_option
from lbgen.diagnostics import Span
from lbgen.engines.api import engine, engines_of, split_lines, target_version
from lbgen.engines.rendered import Rendered
from lbgen.engines.verdicts import Answer, answers
from lbgen.html.page import build_page, to_html
from lbgen.json_types import Printed
from lbgen.plan.model import Forward, Plan
from lbgen.plan.tiers import parts

if TYPE_CHECKING:
    from lbgen.conformance.verify.report import Report
    from lbgen.spec.load import Topology

    Parts = Sequence[tuple[Plan, tuple[str, ...]]]


class Origin(Printed, frozen=True):
    """The field behind a rendered line (explain --line)."""

    engine: str
    text: Annotated[str, Meta(description="The line.")]
    field: Annotated[str | None, Meta(description="null: no single field produces it.")]
    place: Span | None


class RenderedLine(Printed, frozen=True):
    """A rendered line that a field produces (explain --field)."""

    file: str
    line: int
    field: str
    text: str


@click.command(
    epilog="\b\nExamples:\n  lbgen explain shop.yaml\n  lbgen explain shop.yaml --line nginx.conf:42\n"
    "  lbgen explain shop.yaml --field 'routes[api].rewrite' -e haproxy\n  lbgen explain shop.yaml --cost\n"
    "  lbgen explain shop.yaml --versions\n"
    "  lbgen explain shop.yaml --html shop.html"
)
@topology_option
@options.engines
@click.option("--line", metavar="FILE:N", help="Show the topology line behind line N of a rendered file.")
@click.option(
    "--field", metavar="FIELD", help="Show the rendered lines that a field produces, such as routes[api].rewrite."
)
@click.option("--cost", is_flag=True, help="Show what features cost per request on each engine, and what is cheaper.")
@click.option(
    "--versions",
    "by_version",
    is_flag=True,
    help="Show which versions of each engine can serve it, and what stops others.",
)
@options.html
@options.json_flag
def explain_command(
    topology: TopologyFiles,
    chosen: tuple[str, ...],
    line: str | None,
    field: str | None,
    cost: bool,
    by_version: bool,
    html: str | None,
    as_json: bool,
) -> None:
    """Show features x engines with verdicts, the field behind a rendered line, or the lines that a field produces.

    With --cost show measured CPU microseconds per request instead of verdicts.
    """
    if sum(map(bool, (line, field, cost, by_version, html))) > 1:
        raise click.UsageError("use one of --line, --field, --cost, --versions and --html")
    loaded = topology.load()
    found = [(tier.plan, engines_of(tier, chosen)) for tier in parts(loaded)]
    if html:
        write_page(html, loaded, chosen)
    if html == "-":
        return
    if line:
        _origin(found, line, as_json)
    elif field:
        _lines(found, field, as_json)
    elif cost:
        costs = {_tier(plan): explain_costs(plan, names, quiet=as_json) for plan, names in found}
        if as_json:
            print_json(costs.get("", costs))
    elif by_version:
        by_tier = {_tier(plan): explain_versions(plan, names, quiet=as_json) for plan, names in found}
        if as_json:
            print_json(by_tier.get("", by_tier))
    elif as_json:
        records = {_tier(plan): _verdicts(plan, names, quiet=True) for plan, names in found}
        print_json(records.get("", records))
    else:
        for plan, names in found:
            _verdicts(plan, names)


def _tier(plan: Plan) -> str:
    return "" if plan.tier is None else plan.tier.tier


def _verdicts(plan: Plan, names: tuple[str, ...], *, quiet: bool = False) -> dict[str, object]:
    """Return the JSON record of all verdicts; print the table unless `quiet`."""
    columns: dict[str, tuple[Answer, ...]] = {}
    titles = {}
    for name in names:
        target = engine(name)
        version = target_version(target, plan.options(name).version)
        columns[name] = answers(plan, target, version)
        titles[name] = f"{target.title} {version}"
    if not quiet:
        print_verdicts(columns, titles, f"verdicts for tier {_tier(plan)}" if plan.tier is not None else "verdicts")
    return {name: [a.as_dict() for a in found] for name, found in columns.items()}


def _render_all(found: Parts) -> Iterator[tuple[str, Plan, Rendered]]:
    """Yield folder (`edge/haproxy`, without tiers `haproxy`), plan and files; skip engines that refuse the plan."""
    for plan, names in found:
        tier = f"{_tier(plan)}/" if plan.tier is not None else ""
        for name in names:
            try:
                yield f"{tier}{name}", plan, lbgen.render(plan, engine=name, accept=("all",))
            except lbgen.LbgenError as stop:
                say(f"skipped {tier}{name}: {stop.diagnostics[0].message}")


def _origin(found: Parts, line: str, as_json: bool) -> None:
    file, _, number = line.rpartition(":")
    if not file or not number.isdigit():
        raise click.UsageError(f"--line takes FILE:N, such as nginx.conf:42, not {line!r}")
    seen = []
    for folder, plan, rendered in _render_all(found):
        for each in rendered.files:
            seen.append(f"{folder}/{each.name}")
            if file not in (each.name, seen[-1]):
                continue
            lines = split_lines(each.text)
            if not 1 <= int(number) <= len(lines):
                raise click.UsageError(f"{file} has {len(lines)} lines")
            field = each.origins[int(number) - 1] if each.origins else ""
            span = dict(plan.spans).get(field)
            text = lines[int(number) - 1].strip()
            if as_json:
                print_json(Origin(rendered.engine, text, field or None, span))
            elif field:
                click.echo(f"{span or ''}: {field}\n  {folder}/{each.name}:{number}: {text}")
            else:
                click.echo(f"{folder}/{each.name}:{number}: {text}\n  no single field produces it")
            return
    raise click.UsageError(f"no rendered file {file!r}; files: {', '.join(seen)}")


def _lines(asked: Parts, written: str, as_json: bool) -> None:
    found = []
    for folder, plan, rendered in _render_all(asked):
        field = _by_number(plan, written)
        for each in rendered.files:
            owner = _owner(field, set(each.origins))
            for number, (origin, text) in enumerate(zip(each.origins, split_lines(each.text), strict=False), 1):
                if origin and (origin == owner or origin.startswith((f"{field}.", f"{field}["))):
                    place = f"{folder}/{each.name}"
                    found.append(RenderedLine(place, number, origin, text.strip()))
    if as_json:
        print_json(found)
    for each_line in [] if as_json else found:
        click.echo(f"{each_line.file}:{each_line.line}: {each_line.text}")
    if not found:
        say(f"{written!r} produces no rendered line")
        raise click.exceptions.Exit(exit_codes.FINDINGS)


def _by_number(plan: Plan, field: str) -> str:
    """The field with numbers in place of names, as in `routes[api].forward[app]`."""
    parts = re.fullmatch(r"routes\[([^\]]+)\](?:(\.forward)\[([^\]]+)\])?(.*)", field)
    route = None if parts is None else next((x for x in plan.routes if parts[1] in (x.name, str(x.index))), None)
    if parts is None or route is None:
        return field
    inner = ""
    if parts[2]:
        targets = route.action.targets if isinstance(route.action, Forward) else ()
        number = next((n for n, x in enumerate(targets) if x.pool == parts[3]), parts[3])
        inner = f"{parts[2]}[{number}]"
    return f"{route.field}{inner}{parts[4]}"


def _owner(field: str, origins: set[str]) -> str:
    """Return `field`, or the nearest enclosing field that some line comes from."""
    while field and field not in origins:
        cut = max(field.rfind("."), field.rfind("["))
        field = field[:cut] if cut > 0 else ""
    return field


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
    page = to_html(build_page(topology, names, accept, report, notes))
    if file == "-":
        click.echo(page, nl=False)
        return
    Path(file).write_text(page, encoding="utf-8")
    click.echo(f"wrote {file}", err=True)
