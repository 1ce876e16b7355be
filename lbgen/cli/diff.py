"""`lbgen diff` and `fingerprint`: what clients see change between two topologies, or two versions of an engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec
from msgspec import Meta
from rich.console import Console

import lbgen
from lbgen.cli import exit_codes, options, values
from lbgen.cli.output import console, pluralize, print_json, say, show_status
from lbgen.cli.topology_files import TopologyFiles, refuse_second_stdin
from lbgen.conformance.fingerprint import ChangedProbe, Fingerprint, compare, measure, read, read_stored, sent
from lbgen.json_types import Printed

if TYPE_CHECKING:
    from lbgen.conformance.topology_diff import Comparison


class Fingerprints(Printed, frozen=True):
    """What two versions of an engine do differently."""

    before: Annotated[str, Meta(description="Engine and version.")]
    after: str
    differences: list[ChangedProbe]


@click.command(
    epilog="\b\nExamples:\n  lbgen diff shop.yaml shop-new.yaml\n  lbgen diff before.yaml after.yaml --json\n"
    "  git show HEAD:shop.yaml | lbgen diff - shop.yaml"
)
@click.argument("before", type=click.Path(dir_okay=False, allow_dash=True))
@click.argument("after", type=click.Path(dir_okay=False, allow_dash=True))
@options.json_flag
def diff_command(before: str, after: str, as_json: bool) -> None:
    """Show the requests whose answer changes from BEFORE to AFTER, and the changes that no single request can show.

    The requests are those that the rules of either topology distinguish; of each kind of change the smallest request
    is shown. Exit 0 if nothing changes, 4 if something does.
    """
    refuse_second_stdin((before, after))
    one, other = (TopologyFiles((path,)).load() for path in (before, after))
    found = lbgen.diff(one, other)
    if as_json:
        print_json(found.as_dict())
    else:
        print_comparison(console(), found)
    raise click.exceptions.Exit(exit_codes.OK if found.same else exit_codes.DIFFERS)


def print_comparison(out: Console, found: Comparison) -> None:
    """Print what changes, for people."""
    for change in found.requests:
        more = f" ({change.count} such requests)" if change.count > 1 else ""
        one, other = (name or "no route" for name in change.routes)
        title = f"route {one}" if one == other else f"{one} -> {other}"
        out.print(f"{change.listener}, {title}{more}", style="bold", markup=False)
        out.print(f"  {change.curl}", markup=False)
        out.print(f"  - {change.before}", style="red", markup=False)
        out.print(f"  + {change.after}\n", style="green", markup=False)
    for field in found.fields:
        out.print(f"{field.field}: {field.before or '(none)'} -> {field.after or '(none)'}", markup=False)
        if field.meaning:
            out.print(f"  {field.meaning}", style="dim", markup=False)
    requests = sum(change.count for change in found.requests)
    changed = f"{pluralize(requests, 'request')} change{'s' if requests == 1 else ''}"
    summary = "nothing changes" if found.same else changed
    rest = pluralize(len(found.fields), "change")
    out.print(f"{summary}, of {found.asked} requests tried; {rest} that no request shows", markup=False)


@click.command(
    epilog="\b\nExamples:\n  lbgen fingerprint haproxy                       # is it as its stored profile says?\n"
    "  lbgen fingerprint haproxy@2.8 --compare 3.2     # what would an upgrade change?\n"
    "  lbgen fingerprint traefik -o before.json        # before an upgrade, and after it:\n"
    "  lbgen fingerprint traefik --compare before.json"
)
@click.argument("engine", type=values.EngineAndVersion(), metavar="ENGINE[@VERSION]")
@click.option(
    "--compare",
    "other",
    metavar="VERSION|FILE",
    help="Show what the stored profile of that version, or a file that -o wrote, has otherwise.  [default: the stored "
    "profile of the same version]",
)
@click.option("--stored", is_flag=True, help="Run nothing: take the stored profile of ENGINE, too.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the profile as JSON.")
@options.json_flag
def fingerprint_command(engine: str, other: str | None, stored: bool, output: str | None, as_json: bool) -> None:
    """Send fixed bytes to ENGINE of this host, and compare what comes of them.

    Exit 4 if anything differs: an answer, what the endpoint received, or a verdict.
    """
    name, _, version = engine.partition("@")
    if stored:
        found = read_stored(name, version or None)
    else:
        with show_status(f"{name} answers"):
            found = measure(name, version)
    if output is not None:
        _write(Path(output), found)
        if other is None:
            return
    is_file = other is not None and ("/" in other or other.endswith(".json"))
    after = read(Path(other or "")) if is_file else read_stored(name, other or found.version)
    differences = compare(found, after)
    if as_json:
        print_json(Fingerprints(f"{name} {found.version}", f"{name} {after.version}", list(differences)))
    else:
        for each in differences:
            click.echo(f"{each.probe}: {_sent(each.probe)}")
            for mark, lines in (("-", each.before), ("+", each.after)):
                for line in lines or ("(not asked)",):
                    click.echo(f"  {mark} {line}")
        count = pluralize(len(differences), "difference")
        say(f"{name} {found.version} (-) and {after.version} (+): {count} in {pluralize(len(found.probes), 'probe')}")
    if differences:
        raise click.exceptions.Exit(exit_codes.DIFFERS)


def _sent(probe: str) -> str:
    """The beginning of the bytes that the probe sends; empty for a verdict."""
    data = ascii(sent(probe).decode("latin-1"))[1:-1]
    return data if len(data) <= 160 else f"{data[:160]}..."


def _write(path: Path, found: Fingerprint) -> None:
    path.write_text(json.dumps(msgspec.to_builtins(found), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    say(f"wrote {path}: {found.engine} {found.version}")
