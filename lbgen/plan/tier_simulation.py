"""Simulates a request through a chain of tiers, from the entry listener to the last tier."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbgen.plan.model import Forward, Listener, Mode, Plan
from lbgen.plan.request import Request
from lbgen.plan.simulate import L4Outcome, Outcome, Upstream, simulate, simulate_l4
from lbgen.plan.tiers import Tier

_ELSEWHERE = "192.0.2.1"  # of TEST-NET-1: stands for the unknown address of the tier in front


class Hop(Struct, frozen=True):
    """What `tier` does on `listener`. `client_known`: the client's address reaches it."""

    tier: str
    listener: str
    plan: Plan
    outcome: Outcome | L4Outcome
    client_known: bool = True

    @property
    def next(self) -> tuple[str, str] | None:
        """Tier and listener that follow, by the largest share; None at the end of the chain."""
        shares = (
            self.outcome.pools
            if isinstance(self.outcome, L4Outcome)
            else tuple((up.pool, up.weight) for up in self.outcome.upstreams)
        )
        name = max(shares, key=lambda each: each[1])[0] if shares else None
        return None if name is None else self.plan.pool(name).leads_to


def follow_tiers(tiers: Sequence[Tier], listener: str, request: Request, sni: str | None = None) -> tuple[Hop, ...]:
    """The hops of `request` from `listener` on, over TLS with the server name `sni` (None = without TLS).

    Raises KeyError when there is no such listener.
    """
    hops: list[Hop] = []
    at: tuple[str, str] | None = next(
        (tier.name, each.name) for tier in tiers for each in tier.plan.listeners if each.name == listener
    )
    plans = {tier.name: tier.plan for tier in tiers}
    known = True
    while at is not None:
        tier, name = at
        plan = plans[tier]
        here = plan.listener(name)
        known = known and (not hops or _client_reaches(here, hops[-1]))
        client = request.client if known else _ELSEWHERE
        outcome: Outcome | L4Outcome
        if here.mode is Mode.L4:
            outcome = simulate_l4(plan, name, sni if here.tls is not None or sni else None, client)
        else:
            request = replace(request, listener=name, client=client)
            outcome = simulate(plan, request)
            if outcome.upstreams:
                request = _forwarded(request, max(outcome.upstreams, key=lambda up: up.weight))
        hops.append(Hop(tier, name, plan, outcome, known))
        at = hops[-1].next
    return tuple(hops)


def _client_reaches(listener: Listener, before: Hop) -> bool:
    """Whether the client's address reaches this listener: by a PROXY header, or by X-Forwarded-For from an L7 tier."""
    return listener.proxy_protocol or isinstance(before.outcome, Outcome)


def _forwarded(request: Request, upstream: Upstream) -> Request:
    """The request that the next tier receives."""
    headers = tuple((name, value if value is not None else "-") for name, value in upstream.headers)
    return replace(request, method=upstream.method, target=upstream.target, headers=headers)


class Front(Struct, frozen=True):
    """An L4 listener `entry` of `tier`, through which clients reach an L7 listener of tier `behind`. `plan` is that L7
    listener with its routes, at the address of `entry`. `client_known`: the client's address reaches it."""

    tier: str
    entry: Listener
    behind: str
    plan: Plan
    client_known: bool
    proxied: bool  # the L7 listener expects a PROXY header


def l4_fronts(tiers: Sequence[Tier]) -> tuple[Front, ...]:
    """Each L4 listener of an entry tier that leads all connections to one L7 listener."""
    plans = {tier.name: tier.plan for tier in tiers}
    found = []
    for tier in tiers:
        for entry in tier.plan.listeners if tier.entry else ():
            if entry.mode is not Mode.L4:
                continue
            at, known = _behind(plans, (tier.name, entry.name))
            if at is None:
                continue
            plan = plans[at[0]]
            inner = plan.listener(at[1])
            seen = replace(
                inner,
                address=entry.address,
                port=entry.port,
                public_port=None if inner.client_port == entry.port else inner.client_port,
                proxy_protocol=entry.proxy_protocol,
                tls=entry.tls if entry.terminates_tls else inner.tls,
            )
            found.append(Front(tier.name, entry, at[0], replace(plan, listeners=(seen,)), known, inner.proxy_protocol))
    return tuple(found)


def _behind(plans: dict[str, Plan], at: tuple[str, str]) -> tuple[tuple[str, str] | None, bool]:
    """The L7 listener that all connections reach (None when they part, or end before), and whether clients' addresses
    reach it."""
    known = True
    while True:
        plan, name = plans[at[0]], at[1]
        listener = plan.listener(name)
        if listener.mode is Mode.L7:
            return at, known
        to = {
            plan.pool(target.pool).leads_to
            for rule in listener.l4_rules
            if isinstance(action := plan.route(rule.route).action, Forward)
            for target in action.targets
            if target.weight
        }
        if len(to) != 1 or any(rule.sni or rule.sources for rule in listener.l4_rules):
            return None, False
        after = to.pop()
        if after is None:
            return None, False
        at = after
        known = known and plans[at[0]].listener(at[1]).proxy_protocol
