"""What the Gateway API (1.6) says of each feature, and why it has no word for the others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.diagnostics import NOWHERE, Diagnostic, LbgenError, Severity
from lbgen.engines.verdicts import ACCEPT_ALL
from lbgen.plan.features import Feature

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

# Of the standard channel, core or extended; an implementation lists those that it has.
SAID = frozenset(
    {
        *(Feature.L7, Feature.L4_TCP, Feature.L4_UDP, Feature.TLS_TERMINATE, Feature.TLS_CLIENT_CERT),
        *(Feature.TLS_PASSTHROUGH, Feature.L4_SNI, Feature.HOST_EXACT, Feature.HOST_WILDCARD, Feature.HTTP2),
        *(Feature.FORWARD, Feature.SPLIT, Feature.SPLIT_HEADERS, Feature.REDIRECT, Feature.MIRROR, Feature.CORS),
        *(Feature.REWRITE_PREFIX, Feature.REWRITE_PATH, Feature.REWRITE_HOST, Feature.WEBSOCKET),
        *(Feature.REQUEST_HEADERS_SET, Feature.REQUEST_HEADERS_ADD, Feature.REQUEST_HEADERS_REMOVE),
        *(Feature.RESPONSE_HEADERS_SET, Feature.RESPONSE_HEADERS_ADD, Feature.RESPONSE_HEADERS_REMOVE),
        *(Feature.TIMEOUT_REQUEST, Feature.DRAIN, Feature.POOL_TLS, Feature.POOL_HTTP2, Feature.POOL_GRPC),
        *(Feature.ENDPOINT_NAMES, Feature.ENDPOINT_IPV6),
    }
)
MATCHES = frozenset(
    {
        *("match.path.exact", "match.path.prefix", "match.path.regex", "match.methods"),
        *("match.headers", "match.headers.regex", "match.headers.present", "match.query", "match.query.regex"),
        "match.query.present",
    }
)
_OBJECT = re.compile(r"(listeners|pools)\.[^.\[]+|routes\[\d+\]")
_GATEWAY = "the implementation's own policy for a Gateway"
_BACKEND = "the implementation's own policy for a backend"
_WHY = {
    Feature.RESPOND: "a route has no answer of its own; its requests fall to the next rule, so serve it by a backend",
    Feature.PRIORITY: "precedence follows from the matches alone",
    Feature.RETRIES: "in the experimental channel only (`retry` of a rule)",
    Feature.RETRY_BUDGET: "in the experimental channel only (XBackendTrafficPolicy)",
    Feature.STICKY: "in the experimental channel only (`sessionPersistence`)",
    Feature.WEIGHTS: "endpoints of a Service have equal shares; give each weight a pool, and the route's shares",
    Feature.BACKUP: "endpoints of a Service have equal shares",
    Feature.TIMEOUT_RESPONSE: "`backendRequest` ends with the last byte, so it would cut long answers",
    Feature.RATE_LIMIT: _GATEWAY,
    Feature.CONCURRENCY: _GATEWAY,
    Feature.MAX_BODY: _GATEWAY,
    Feature.ROUTE_ACCESS: "any client is let in; use the implementation's own policy, or a NetworkPolicy",
    Feature.LISTENER_ACCESS: "any client is let in; use the implementation's own policy, or a NetworkPolicy",
    Feature.L4_SOURCES: "any client is let in; use the implementation's own policy, or a NetworkPolicy",
    Feature.HEALTH_ACTIVE: "readiness probes of pods take their place; addresses outside of the cluster have none",
    Feature.HEALTH_PASSIVE: _BACKEND,
    Feature.ACCESS_LOG: _GATEWAY,
    Feature.METRICS: _GATEWAY,
    Feature.ESCAPE_HATCH: "it is text for one engine",
}


def unsaid(plan: Plan) -> dict[Feature, str]:
    """The features in use that the API has no word for, with what holds instead."""
    found = {}
    for feature in plan.uses_by_feature():
        if feature not in SAID and feature.value not in MATCHES:
            found[feature] = _WHY.get(feature, _BACKEND if feature.value.startswith("pool.") else _GATEWAY)
    return found


def written(plan: Plan, feature: Feature) -> list[str]:
    """The fields of the topology that ask for a feature; not a listener, route or pool that has it as every one does,
    and not a profile."""
    if feature is Feature.METRICS:
        return ["metrics"]  # one field makes them for all listeners
    uses = (use for use in plan.uses_by_feature()[feature] if not use.default and not use.engine)
    fields = dict.fromkeys(use.field for use in uses)
    return [field for field in fields if not _OBJECT.fullmatch(field) and plan.span(field) != NOWHERE]


def findings(plan: Plan, accept: tuple[str, ...]) -> Iterator[Diagnostic]:
    """A warning LB310 for each feature that a field asks for and that the API cannot say. Raises LbgenError LB311 for
    those that are not accepted, as a rule that is gone in silence is worse than none."""
    accepted = {*accept, *(word for word in plan.accept if ":" not in word)}
    warnings: list[Diagnostic] = []
    refused: list[Diagnostic] = []
    for feature, why in unsaid(plan).items():
        fields = written(plan, feature)
        if not fields:
            continue
        more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
        message, span = (
            f"the Gateway API has no word for {feature}{more}: {why}",
            plan.use_spans.get(fields[0]) or plan.span(fields[0]),
        )
        if accepted & {feature.value, ACCEPT_ALL}:
            warnings.append(Diagnostic("LB310", message, span, fields[0], "", Severity.WARNING))
        else:
            hint = f"leave it out with --accept {feature}, or choose another target"
            refused.append(Diagnostic("LB311", message, span, fields[0], hint, accept=feature.value))
    if refused:
        raise LbgenError(refused)
    yield from warnings
