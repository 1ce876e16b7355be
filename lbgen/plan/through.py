"""The oracle for a chain of tiers: what each of them does with a request, from where it comes in to where it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lbgen.plan.model import Mode
from lbgen.plan.simulate import L4Outcome, Outcome, simulate, simulate_l4

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.plan.model import Listener, Plan
    from lbgen.plan.simulate import Request, Upstream
    from lbgen.plan.tiers import Tier

_ELSEWHERE = "192.0.2.1"  # of TEST-NET-1: a tier in front, whose address nobody knows


@dataclass(frozen=True, slots=True)
class Hop:
    """What `tier` does on `listener`. `known`: it learns the client's address."""

    tier: str
    listener: str
    plan: Plan
    outcome: Outcome | L4Outcome
    known: bool = True

    @property
    def next(self) -> tuple[str, str] | None:
        """Tier and listener that it leads to, by the largest share; None where the chain ends."""
        shares = (
            self.outcome.pools
            if isinstance(self.outcome, L4Outcome)
            else tuple((up.pool, up.weight) for up in self.outcome.upstreams)
        )
        name = max(shares, key=lambda each: each[1])[0] if shares else None
        return None if name is None else self.plan.pool(name).leads_to


def follow(tiers: Sequence[Tier], listener: str, request: Request, sni: str | None = None) -> tuple[Hop, ...]:
    """The hops of `request` that comes in at `listener`, in TLS for the server name `sni` (None = without).

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
        known = known and (not hops or _told(here, hops[-1]))
        client = request.client if known else _ELSEWHERE
        outcome: Outcome | L4Outcome
        if here.mode is Mode.L4:
            outcome = simulate_l4(plan, name, sni if here.tls is not None or sni else None, client)
        else:
            request = replace(request, listener=name, client=client)
            outcome = simulate(plan, request)
            if outcome.upstreams:
                request = _passed(request, max(outcome.upstreams, key=lambda up: up.weight))
        hops.append(Hop(tier, name, plan, outcome, known))
        at = hops[-1].next
    return tuple(hops)


def _told(listener: Listener, before: Hop) -> bool:
    """Whether the tier before tells this listener who the client is: by a PROXY header; X-Forwarded-For is for L7."""
    return listener.proxy_protocol or isinstance(before.outcome, Outcome)


def _passed(request: Request, upstream: Upstream) -> Request:
    """What the next tier gets."""
    headers = tuple((name, value if value is not None else "-") for name, value in upstream.headers)
    return replace(request, method=upstream.method, target=upstream.target, headers=headers)
