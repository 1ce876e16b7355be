"""`lbgen export`: a folder by which compose, a swarm, Kubernetes, systemd or the Gateway API run a topology."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
from msgspec import Meta

import lbgen
from lbgen.cli import options, values
from lbgen.cli.output import print_findings, print_json
from lbgen.cli.topology_files import TopologyFiles, topology_option
from lbgen.exporters.run import TARGETS
from lbgen.json_types import FindingRecord, Printed


class ExportedFiles(Printed, frozen=True):
    """The files of an export, and what its target keeps in another way."""

    target: str
    files: Annotated[dict[str, str], Meta(description="Name in the folder to text; without certificates and keys.")]
    findings: list[FindingRecord]


@click.command(
    epilog="\b\nExamples:\n  lbgen export shop.yaml --to compose -e nginx -o shop-compose\n"
    "  lbgen export hybrid.yaml --to kubernetes --replicas edge=3 --autoscale -o deploy\n"
    "  lbgen export shop.yaml --to gateway-api --gateway-class istio --accept all -o gateway"
)
@topology_option
@click.option("--to", "target", type=click.Choice(TARGETS), required=True, help="Who runs the folder.")
@click.option("-e", "--engine", type=values.EngineName(), help="The engine, of tiers that name none.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Write the files there, with a README that says how to apply, watch and roll back.",
)
@options.replicas
@click.option("--namespace", default="default", show_default=True, help="Kubernetes: where it runs.")
@click.option("--autoscale", is_flag=True, help="Kubernetes: also a HorizontalPodAutoscaler for each tier.")
@click.option("--gateway-class", default="lbgen", show_default=True, help="Gateway API: the class of the Gateway.")
@options.accept
@options.json_flag
def export_command(
    topology: TopologyFiles,
    target: str,
    engine: str | None,
    output: str | None,
    replicas: tuple[str, ...],
    namespace: str,
    autoscale: bool,
    gateway_class: str,
    accept: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write what runs the topology elsewhere. The same topology gives the same files.

    A warning (LB310) names each field that the target keeps in another way, and what holds instead; what it cannot
    hold at all is an error (LB311).
    """
    if output is None and not as_json:
        raise click.UsageError("name the folder: -o FOLDER (or --json)")
    found = lbgen.export(
        topology.load(),
        target,
        engine=engine,
        replicas=_replicas(replicas),
        accept=accept,
        namespace=namespace,
        autoscale=autoscale,
        gateway_class=gateway_class,
    )
    if output is not None:
        written = found.write(output)
    if as_json:
        print_json(ExportedFiles(target, found.files, [each.as_dict() for each in found.findings]))
        return
    print_findings(found.findings)
    click.echo(f"{output}: {len(written)} files; {Path(str(output)) / 'README.md'} says how to apply them")


def _replicas(written: tuple[str, ...]) -> dict[str, int]:
    """Replicas by tier, "" where none is named. Raises click.UsageError."""
    found = {}
    for text in written:
        tier, _, number = text.rpartition("=")
        if not (number.isascii() and number.isdigit() and int(number)):
            raise click.UsageError(f"--replicas takes TIER=N or N, not {text!r}")
        found[tier] = int(number)
    return found
