"""Pools without health checks, with unverified TLS or with guessable cookies."""

from __future__ import annotations

from lbgen.plan.checks.context import Context, list_names


def check(context: Context) -> None:
    """LB267 no health, LB269 sticky without health, LB276 backup without health, LB277 TLS not verified,
    LB293 sticky without secret."""
    used = context.expanded.used_pools
    alone = []
    for name, pool in context.model.pools.items():
        if name not in used:
            continue
        field = f"pools.{name}"
        watched = pool.health is not None and (pool.health.active is not None or pool.health.passive is not None)
        if pool.sticky is not None and not watched:
            message = "clients stay with a failed endpoint, because nothing detects the failure"
            context.advise("LB269", f"{field}.sticky", message, "add health: { active: { path: /healthz } }")
        elif any(endpoint.backup for endpoint in pool.endpoints) and not watched:
            index = next(i for i, endpoint in enumerate(pool.endpoints) if endpoint.backup)
            message = "a backup takes over when the others are known to be down, and nothing checks them"
            context.advise("LB276", f"{field}.endpoints[{index}]", message, "add health: { passive: ... } or active")
        elif sum(bool(endpoint.weight) for endpoint in pool.endpoints) > 1 and not watched:
            alone.append(name)
        if pool.sticky is not None and pool.sticky.secret is None:
            message = "whoever knows the topology's name can compute which cookie belongs to which endpoint's address"
            hint = "add secret: FILE (`openssl rand -hex 32 > FILE`) to sticky"
            context.advise("LB293", f"{field}.sticky", message, hint)
        if pool.tls is not None and not pool.tls.verify:
            message = "any certificate is accepted, so that traffic can be intercepted"
            context.advise("LB277", f"{field}.tls.verify", message, "name the ca: and drop verify: false")
    if alone:
        message = f"pool {list_names(alone)} has no health checks: a failed endpoint keeps its share of the traffic"
        hint = "add health: { active: { path: /healthz } } (no path on l4), or passive: { failures: 5, eject_for: 10s }"
        context.advise("LB267", f"pools.{alone[0]}", message, hint)
