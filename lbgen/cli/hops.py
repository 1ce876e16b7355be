"""`lbgen route` through tiers: what each of them does with the request."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from lbgen.cli.output import as_json as print_json
from lbgen.cli.route import SHOWN, build, chosen, parsed, record, show
from lbgen.plan.model import Protocol
from lbgen.plan.simulate import L4Outcome
from lbgen.plan.tier_simulation import follow_tiers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.plan.tier_simulation import Hop
    from lbgen.plan.tiers import Tier


def print_hops(
    tiers: Sequence[Tier],
    method: str,
    url: str,
    headers: tuple[str, ...],
    client: str,
    listener: str,
    *,
    as_json: bool,
) -> None:
    """Ask the oracle and print what it says, for people or for scripts. Raises click.UsageError."""
    scheme, authority, _ = parsed(url)
    every = [each for tier in tiers for each in tier.plan.listeners if each.protocol is Protocol.TCP]
    doors = [each for tier in tiers if tier.entry for each in tier.plan.listeners if each.protocol is Protocol.TCP]
    name = chosen(every if listener else doors, scheme, authority, listener)
    request = replace(build(method, url, headers, client), listener="")
    host = (authority or "").rpartition("@")[2]
    sni = host.rpartition(":")[0] or host if scheme == "https" else None
    hops = follow_tiers(tiers, name, request, sni)
    if as_json:
        print_json(_record(hops))
    else:
        _show(hops)


def _record(hops: tuple[Hop, ...]) -> dict[str, object]:
    """The record of the last hop, as without tiers, and all of them under `tiers`."""
    every = []
    for hop in hops:
        said = _bytes(hop.outcome) if isinstance(hop.outcome, L4Outcome) else record(hop.outcome)
        every.append({"tier": hop.tier, "listener": hop.listener, "client_known": hop.known, **said})
    return {**every[-1], "tiers": every}


def _bytes(outcome: L4Outcome) -> dict[str, object]:
    return {
        "route": outcome.route,
        "rule": outcome.rule,
        "reason": outcome.reason,
        "pool": outcome.pools[0][0] if len(outcome.pools) == 1 else None,
        "pools": [{"pool": name, "weight": weight} for name, weight in outcome.pools],
        "losers": [{"rule": x.rule, "route": x.route, "reason": x.reason} for x in outcome.losers],
    }


def _show(hops: tuple[Hop, ...]) -> None:
    for hop in hops:
        click.echo(click.style(f"tier {hop.tier}, listener {hop.listener}", bold=True))
        if not hop.known:
            click.echo("  the client's address is not known here, but for that of the tier in front")
        if not isinstance(hop.outcome, L4Outcome):
            show(hop.outcome)
            continue
        if hop.outcome.route is None:
            click.echo(f"  {hop.outcome.reason}")
        else:
            click.echo(f"  route     {hop.outcome.route} (rule {hop.outcome.rule})")
        total = sum(weight for _, weight in hop.outcome.pools) or 1
        for name, weight in hop.outcome.pools:
            share = f" {100 * weight / total:.4g} %" if len(hop.outcome.pools) > 1 else ""
            click.echo(f"  pool      {name}{share}: the bytes as they come")
        for loser in hop.outcome.losers[:SHOWN]:
            click.echo(f"  not by {loser.rule}: {loser.reason}")
