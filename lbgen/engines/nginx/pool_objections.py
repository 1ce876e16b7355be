"""Objections to pools: sticky cookies, certificates, state that is lost on reload, names of endpoints."""

from __future__ import annotations

from collections.abc import Iterator

from lbgen.engines.api import Objection, habit, refused
from lbgen.engines.nginx.health_checks import uses_agent
from lbgen.engines.nginx.request_values import key_objections
from lbgen.engines.nginx.support import VERSIONS
from lbgen.plan.model import Balance, Plan, Pool

_WITHOUT_BACKUPS = (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM)


def pool_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """The objections to all pools, in the order of the topology."""
    reloads = uses_agent(plan)
    for pool in plan.pools:
        if pool.sticky is not None:
            yield from _sticky(pool, version)
        if pool.hash_key is not None:
            yield from key_objections(pool.hash_key, f"{pool.field}.balance")
        if pool.tls is not None and pool.tls.server_name is None:
            yield from _names_in_certificates(pool)
        if any(e.backup for e in pool.endpoints) and pool.balance in _WITHOUT_BACKUPS:
            why = f"nginx has no backups beside {pool.balance.value}; balance by round_robin or least_connections"
            yield Objection(refused(why), f"{pool.field}.balance", "pool.backup")
        yield from _lost_on_reload(pool, reloads=reloads)
    why = "nginx needs a DNS server for names of endpoints; add `resolvers: [ADDRESS]` to the topology"
    if not VERSIONS[version].upstreams:
        why = "nginx resolves names at run time from 1.27.3 on only"
    elif plan.resolvers:
        return
    named = next((e for pool in plan.pools for e in pool.endpoints if not e.is_ip), None)
    if named is not None:
        yield Objection(refused(why), named.field, "pool.endpoint_names")


def _sticky(pool: Pool, version: str) -> Iterator[Objection]:
    if any(not e.is_ip for e in pool.endpoints):
        why = "nginx exposes the address that answered, not its name, so it cannot set the cookie of a named endpoint"
        yield Objection(refused(why), f"{pool.field}.sticky", "pool.sticky")
    if VERSIONS[version].upstreams and any(e.backup for e in pool.endpoints):
        note = "a cookie that names a backup is ignored while another endpoint is up"
        named = {"pool.sticky.backup": ("endpoint", "header set-cookie")}
        yield Objection(habit(note, named), f"{pool.field}.sticky", "pool.sticky")
    if not VERSIONS[version].upstreams and (pool.passive is not None or pool.max_per_endpoint is not None):
        note = (
            f"nginx {version} counts failures and requests separately for clients with a cookie and those without: an "
            "endpoint that is ejected for one group may serve the other"
        )
        shows = {"pool.sticky.ejected": "endpoint"}
        yield Objection(habit(note, shows), f"{pool.field}.sticky", "pool.sticky")


def _names_in_certificates(pool: Pool) -> Iterator[Objection]:
    if pool.tls is not None and pool.tls.verify and any(e.is_ip for e in pool.endpoints):
        why = "nginx verifies names in certificates, not addresses; set tls.server_name, or verify: false"
        yield Objection(refused(why), f"{pool.field}.tls", "pool.tls")
        return
    hosts = {e.host for e in pool.endpoints}
    if len(hosts) > 1 and not all(e.is_ip for e in pool.endpoints):
        why = "nginx verifies the certificates of all endpoints against one name; set tls.server_name"
        yield Objection(refused(why), f"{pool.field}.tls", "pool.tls")


def _lost_on_reload(pool: Pool, *, reloads: bool) -> Iterator[Objection]:
    """State that nginx loses when the agent reloads it."""
    when = "of every pool whenever a check removes or restores an endpoint"
    if reloads and pool.passive is not None:
        note = f"nginx loses the ejections {when}"
        shows = {"pool.health.passive.beside_checks": "endpoint"}
        yield Objection(habit(note, shows), f"{pool.field}.health.passive", "pool.health.passive")
    if reloads and pool.max_per_endpoint is not None:
        note = f"nginx loses the counts of requests {when}: until those requests end, there may be more"
        shows = {"pool.connections.max_per_endpoint.beside_checks": "places"}
        field = f"{pool.field}.connections.max_per_endpoint"
        yield Objection(habit(note, shows), field, "pool.connections.max_per_endpoint")
    if pool.slow_start and pool.active is None and pool.passive is None:
        why = "on nginx slow start applies to endpoints that active checks restore; add health.active"
        yield Objection(refused(why), f"{pool.field}.slow_start", "pool.slow_start")
    if pool.slow_start and pool.passive is not None:
        note = "an endpoint gets its full share at once when its ejection ends"
        shows = {"pool.slow_start.after_ejection": "endpoint"}
        yield Objection(habit(note, shows), f"{pool.field}.slow_start", "pool.slow_start")
