"""What the oracle says about a request, printed for people or as a JSON record."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from lbgen.plan.simulate import L4Outcome, Outcome

if TYPE_CHECKING:
    from lbgen.cli.json_types import (
        HopRecord,
        L4HopRecord,
        L4OutcomeRecord,
        L4RouteThroughTiers,
        OutcomeRecord,
        PlaceInTiers,
        RouteThroughTiers,
    )
    from lbgen.plan.tier_simulation import Hop

SHOWN = 20  # losing rules printed


def outcome_record(outcome: Outcome) -> OutcomeRecord:
    """Return the JSON record: route, pool, pools, status, location, upstream {target, host, headers}, losers ..."""
    ups = outcome.upstreams
    serving = [u for u in ups if u.weight > 0]
    first = serving[0] if serving else None
    return {
        "route": outcome.route,
        "rule": outcome.rule,
        "reason": outcome.reason,
        "well_formed": outcome.well_formed,
        "pool": first.pool if first and len(serving) == 1 else None,
        "pools": [{"pool": u.pool, "weight": u.weight} for u in ups],
        "status": outcome.status,
        "others": list(outcome.others),
        "location": outcome.location,
        "body": outcome.body,
        "upstream": (
            {
                "method": first.method,
                "target": first.target,
                "host": first.host,
                "endpoint": first.endpoint,
                "set_cookies": list(first.set_cookies),
                "headers": dict(first.headers),
            }
            if first
            else None
        ),
        "losers": [{"rule": x.rule, "route": x.route, "reason": x.reason} for x in outcome.losers],
    }


def print_outcome(outcome: Outcome, listener: str = "") -> None:
    """Print an outcome for people."""
    if listener:
        click.echo(f"  listener  {listener}")
    if outcome.status is not None:
        click.echo(f"{click.style(str(outcome.status), bold=True)}  {outcome.reason}")
    if not outcome.well_formed:
        click.echo("  or        another 4xx, or served in a form on which the rules hold: the engine's habit")
    if outcome.others:
        click.echo(f"  or        {', '.join(map(str, outcome.others))}")
    if outcome.location is not None:
        click.echo(f"  location  {outcome.location}")
    if outcome.route is not None:
        click.echo(f"  route     {outcome.route} (rule {outcome.rule})")
    total = sum(u.weight for u in outcome.upstreams) or 1
    for up in outcome.upstreams:
        share = f" {100 * up.weight / total:.4g} %" if len(outcome.upstreams) > 1 else ""
        stuck = "" if up.endpoint is None else f" at {up.endpoint}, which its cookie names"
        click.echo(f"  pool      {up.pool}{share}{stuck}: {up.method} {up.target} (Host: {up.host})")
        for name, value in up.headers:
            click.echo(f"              {name}: {value if value is not None else '(made by the proxy)'}")
        if up.set_cookies:
            click.echo(f"              the answer sets the cookie {up.set_cookies[0].partition('=')[0]}")
    if outcome.losers:
        click.echo("not served by:")
    for loser in outcome.losers[:SHOWN]:
        click.echo(f"  {loser.rule}: {loser.reason}")
    if len(outcome.losers) > SHOWN:
        click.echo(f"  ... and {len(outcome.losers) - SHOWN} more (--json shows all)")


def hops_record(hops: tuple[Hop, ...]) -> RouteThroughTiers | L4RouteThroughTiers:
    """Return the record of the last hop, as without tiers, and those of all hops under `tiers`."""
    every: list[HopRecord | L4HopRecord] = []
    for hop in hops:
        place: PlaceInTiers = {"tier": hop.tier, "listener": hop.listener, "client_known": hop.client_known}
        if isinstance(hop.outcome, L4Outcome):
            every.append({**place, **_l4_record(hop.outcome)})
        else:
            every.append({**place, **outcome_record(hop.outcome)})
    return cast("RouteThroughTiers | L4RouteThroughTiers", {**every[-1], "tiers": every})


def _l4_record(outcome: L4Outcome) -> L4OutcomeRecord:
    return {
        "route": outcome.route,
        "rule": outcome.rule,
        "reason": outcome.reason,
        "pool": outcome.pools[0][0] if len(outcome.pools) == 1 else None,
        "pools": [{"pool": name, "weight": weight} for name, weight in outcome.pools],
        "losers": [{"rule": x.rule, "route": x.route, "reason": x.reason} for x in outcome.losers],
    }


def print_hops(hops: tuple[Hop, ...]) -> None:
    """Print what each tier does with the request."""
    for hop in hops:
        click.echo(click.style(f"tier {hop.tier}, listener {hop.listener}", bold=True))
        if not hop.client_known:
            click.echo("  the client's own address is unknown here; the peer is the tier in front")
        if not isinstance(hop.outcome, L4Outcome):
            print_outcome(hop.outcome)
            continue
        if hop.outcome.route is None:
            click.echo(f"  {hop.outcome.reason}")
        else:
            click.echo(f"  route     {hop.outcome.route} (rule {hop.outcome.rule})")
        total = sum(weight for _, weight in hop.outcome.pools) or 1
        for name, weight in hop.outcome.pools:
            share = f" {100 * weight / total:.4g} %" if len(hop.outcome.pools) > 1 else ""
            click.echo(f"  pool      {name}{share}: the bytes, unchanged")
        for loser in hop.outcome.losers[:SHOWN]:
            click.echo(f"  not by {loser.rule}: {loser.reason}")
