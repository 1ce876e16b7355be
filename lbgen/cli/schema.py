"""`lbgen schema`: the JSON Schema of a topology, for editors, and of the JSON that commands print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from lbgen.bench.compare import Comparison
from lbgen.bench.cost import CostReport
from lbgen.bench.faults.report import FaultReport
from lbgen.bench.report import BenchReport
from lbgen.cli import values
from lbgen.cli.diff import Fingerprints
from lbgen.cli.explain import Origin, RenderedLine
from lbgen.cli.export import ExportedFiles
from lbgen.cli.images import ImagesBuilt
from lbgen.cli.logs import EngineAccess, LogLine
from lbgen.cli.output import print_json
from lbgen.cli.render import RenderedFiles, RenderedTier
from lbgen.cli.route import Answer
from lbgen.conformance.json_types import PreviewRecord, ReportRecord
from lbgen.conformance.topology_diff import ComparisonRecord
from lbgen.engines.costs import Costs
from lbgen.engines.verdicts import VerdictRecord
from lbgen.json_types import FindingRecord
from lbgen.plan.effective import ValueRecord
from lbgen.runtime.common.stats import RouteStats
from lbgen.runtime.docker.images import ImageRow
from lbgen.runtime.json_types import StackRecord
from lbgen.spec import schema

TOPOLOGY = "topology"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_Verdicts = dict[str, list[VerdictRecord]]
_Costs = dict[str, Costs | None]
_Versions = dict[str, dict[str, list[FindingRecord]]]  # by engine and version: what rules it out

# Command to the types of its JSON; `images build` is a command within another. With tiers an answer may be one by tier.
ANSWERS: dict[str, tuple[Any, ...]] = {
    "check": (list[FindingRecord],),
    "render": (dict[str, RenderedFiles], dict[str, RenderedTier]),
    "export": (ExportedFiles,),
    "explain": (
        _Verdicts,
        dict[str, _Verdicts],
        Origin,
        list[RenderedLine],
        _Costs,
        dict[str, _Costs],
        _Versions,
        dict[str, _Versions],
    ),
    "config": (list[ValueRecord],),
    "route": (Answer,),
    "diff": (ComparisonRecord,),
    "verify": (ReportRecord,),
    "fingerprint": (Fingerprints,),
    "bench": (BenchReport, CostReport, FaultReport, Comparison),
    "preview": (PreviewRecord,),
    "up": (StackRecord, PreviewRecord),
    "reload": (StackRecord, PreviewRecord),
    "ps": (list[StackRecord],),
    "logs": (list[LogLine], LogLine, EngineAccess),
    "stats": (list[RouteStats],),
    "down": (list[str],),
    "images": (list[ImageRow],),
    "images build": (ImagesBuilt,),
}
_HINT = "`lbgen schema --of topology`, or a command that has --json, such as check or 'images build'"


@click.command(
    epilog="\b\nExamples:\n  lbgen schema -o lbgen.schema.json\n  lbgen schema --of check\n"
    "  lbgen schema --of 'images build'\n\n"
    "To have an editor help, open a topology with this first line, as `lbgen init` writes it:\n"
    "  # yaml-language-server: $schema=lbgen.schema.json"
)
@click.option(
    "--of",
    "subject",
    type=values.OneOf("schema", lambda: (TOPOLOGY, *ANSWERS), _HINT),
    default=TOPOLOGY,
    show_default=True,
    metavar="COMMAND",
    help="The JSON that this command prints with --json.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, allow_dash=True),
    default="-",
    help="Write FILE instead of printing.",
)
def schema_command(subject: str, output: str) -> None:
    """Print the JSON Schema of a topology, or of what a command prints with --json; or write it into a file."""
    if output == "-":
        print_json(schema_of(subject))
        return
    Path(output).write_text(json.dumps(schema_of(subject), indent=2) + "\n", encoding="utf-8")
    click.echo(f"wrote {output}")


def schema_of(subject: str) -> dict[str, Any]:
    """The schema (2020-12) of a topology, or of the JSON of a command, whose objects have no other keys."""
    if subject == TOPOLOGY:
        return schema.schema()
    shapes, definitions = msgspec.json.schema_components(ANSWERS[subject], ref_template="#/$defs/{name}")
    for each in definitions.values():
        if "properties" in each:
            each["additionalProperties"] = False
    body = shapes[0] if len(shapes) == 1 else {"anyOf": list(shapes)}
    return {"$schema": _DIALECT, "title": f"lbgen {subject} --json", **body, "$defs": definitions}
