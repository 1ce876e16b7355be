"""Parts of a plan that no case covers, for the report."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice

from lbgen.conformance.verify.cases import distinct_client, has_health_checks, is_limited_by_client
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Plan, PoolProtocol
from lbgen.plan.policy import KeyKind

_FEATURES = (
    Feature.ENDPOINT_NAMES,
    Feature.RETRY_BUDGET,
    Feature.QUEUE,
    Feature.SLOW_START,
    Feature.MAX_CONNECTIONS,
    Feature.L4_MAX_CONNECTIONS,
    Feature.KEEPALIVE,
    Feature.BUFFERING,
    Feature.ACCESS_LOG,
)


_MOST = 10  # names that a line lists


def find_gaps(plan: Plan) -> tuple[str, ...]:
    """Features that the topology asks for, and routes whose faults are left out, each with the places."""
    found = []
    used = plan.uses_by_feature()
    for feature in _FEATURES:
        fields = dict.fromkeys(use.field for use in used.get(feature, ()) if not use.default)
        if fields:
            found.append(f"{feature} ({_some(fields)})")
    l4 = {rule.route for listener in plan.listeners for rule in listener.l4_rules}
    forwards = [(x, x.action) for x in plan.routes if isinstance(x.action, Forward) and x.name not in l4]
    checked = [route.name for route, action in forwards if has_health_checks(plan, action)]
    if checked:
        found.append(f"failing endpoints of routes with health checks ({_some(checked)}), but for the checks")
    spent = [x.name for x, _ in forwards if x.rate_limit is not None and x.rate_limit.key.kind is KeyKind.ROUTE]
    if spent:
        found.append(f"failing endpoints and slow rates of routes whose rate is shared ({_some(spent)})")
    few = [
        x.name
        for x in plan.routes
        if x.name not in l4 and is_limited_by_client(x) and distinct_client(0, x.access) is None
    ]
    if few:
        found.append(f"limits by client, and failing endpoints, of routes that let in few clients ({_some(few)})")
    streams = [
        route.name
        for route, action in forwards
        if any(plan.pool(target.pool).protocol is not PoolProtocol.HTTP1 for target in action.targets)
    ]
    if streams:
        found.append(f"WebSockets to HTTP/2 endpoints, and uploads that these stop reading ({_some(streams)})")
    return tuple(found)


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(islice(names, _MOST)) + more
