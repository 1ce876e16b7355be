"""`lbgen fingerprint`: what a version of an engine does with fixed bytes, and what another one does differently."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lbgen.cli import exit_codes, options
from lbgen.cli.output import pluralize, print_json, say, show_status

if TYPE_CHECKING:
    from lbgen.conformance.fingerprint import Fingerprint


class EngineAndVersion(options.EngineName):
    """`haproxy` or `haproxy@3.2`."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value`; fail for an engine that is not installed."""
        super().convert(value.partition("@")[0], param, ctx)
        return value


@click.command(
    epilog="\b\nExamples:\n  lbgen fingerprint haproxy                       # is it as its stored profile says?\n"
    "  lbgen fingerprint haproxy@2.8 --compare 3.2     # what would an upgrade change?\n"
    "  lbgen fingerprint traefik -o before.json        # before an upgrade, and after it:\n"
    "  lbgen fingerprint traefik --compare before.json"
)
@click.argument("engine", type=EngineAndVersion(), metavar="ENGINE[@VERSION]")
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
def command(engine: str, other: str | None, stored: bool, output: str | None, as_json: bool) -> None:
    """Send fixed bytes to ENGINE of this host, and compare what comes of them.

    Exit 4 if anything differs: an answer, what the endpoint received, or a verdict.
    """
    from lbgen.conformance.fingerprint import compare, measure, read, read_stored

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
        names = {"before": f"{name} {found.version}", "after": f"{name} {after.version}"}
        print_json({**names, "differences": [asdict(each) for each in differences]})
    else:
        for each in differences:
            click.echo(f"{each.probe}: {_request(each.probe)}")
            for mark, lines in (("-", each.before), ("+", each.after)):
                for line in lines or ("(not asked)",):
                    click.echo(f"  {mark} {line}")
        count = pluralize(len(differences), "difference")
        say(f"{name} {found.version} (-) and {after.version} (+): {count} in {pluralize(len(found.probes), 'probe')}")
    if differences:
        raise click.exceptions.Exit(exit_codes.DIFFERS)


def _request(probe: str) -> str:
    """The beginning of the bytes that the probe sends; empty for a verdict."""
    from lbgen.conformance.fingerprint import sent

    data = ascii(sent(probe).decode("latin-1"))[1:-1]
    return data if len(data) <= 160 else f"{data[:160]}..."


def _write(path: Path, found: Fingerprint) -> None:
    path.write_text(json.dumps(asdict(found), indent=1, ensure_ascii=True) + "\n", encoding="utf-8")
    say(f"wrote {path}: {found.engine} {found.version}")
