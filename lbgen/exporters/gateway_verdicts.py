"""What the Gateway API (1.6) says of each feature, and why it has no word for the others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lbgen.diagnostics import NOWHERE, Diagnostic, LbgenError, Severity
from lbgen.engines.verdicts import ACCEPT_ALL
from lbgen.plan.features import Feature
from lbgen.plan.model import Plan

# Of the standard channel, core or extended; an implementation lists those that it has.
SAID = frozenset(
    {
        *("listener.l7", "listener.l4.tcp", "listener.l4.udp", "listener.tls", "listener.tls.client"),
        *("listener.tls.passthrough", "match.sni", "match.host", "match.host.wildcard", "listener.http2"),
        *("route.forward", "route.forward.split", "route.forward.request_headers", "route.redirect"),
        *("route.mirror", "route.cors", "route.websocket"),
        *("route.rewrite.prefix", "route.rewrite.path", "route.rewrite.host"),
        *("route.request_headers.set", "route.request_headers.add", "route.request_headers.remove"),
        *("route.response_headers.set", "route.response_headers.add", "route.response_headers.remove"),
        *("timeouts.request", "pool.weights.zero", "pool.tls", "pool.protocol.http2", "pool.protocol.grpc"),
        *("pool.endpoint_names", "pool.endpoint_ipv6"),
        *("match.path.exact", "match.path.prefix", "match.path.regex", "match.methods"),
        *("match.headers", "match.headers.regex", "match.headers.present"),
        *("match.query", "match.query.regex", "match.query.present"),
    }
)
_OBJECT = re.compile(r"(listeners|pools)\.[^.\[]+|routes\[\d+\]")
_GATEWAY = "the implementation's own policy for a Gateway"
_BACKEND = "the implementation's own policy for a backend"
_CLOSED = "rules of the route have no backend and answer 500, until they get one beside the implementation's own policy"
_WHY = {
    "route.respond": "a route has no answer of its own; its requests fall to the next rule, so serve it by a backend",
    "route.priority": "precedence follows from the matches alone",
    "route.retries": "in the experimental channel only (`retry` of a rule)",
    "route.retries.budget": "in the experimental channel only (XBackendTrafficPolicy)",
    "pool.sticky": "in the experimental channel only (`sessionPersistence`)",
    "pool.weights": "endpoints of a Service have equal shares; give each weight a pool, and the route's shares",
    "pool.backup": "endpoints of a Service have equal shares",
    "timeouts.response": "`backendRequest` ends with the last byte, so it would cut long answers",
    "route.rate_limit": _GATEWAY,
    "route.concurrency": _GATEWAY,
    "route.max_body": _GATEWAY,
    "route.access": "any client is let in; use the implementation's own policy, or a NetworkPolicy",
    "listener.access": "any client is let in; use the implementation's own policy, or a NetworkPolicy",
    "route.sources": "any client is let in; use the implementation's own policy, or a NetworkPolicy",
    "route.auth.basic": _CLOSED,
    "route.auth.forward": f"in the experimental channel only (the filter ExternalAuth); {_CLOSED}",
    "route.auth.jwt": _CLOSED,
    "pool.health.active": "readiness probes of pods take their place; addresses outside of the cluster have none",
    "pool.health.passive": _BACKEND,
    "access_log": _GATEWAY,
    "metrics": _GATEWAY,
    "engines.verbatim": "it is text for one engine",
    "engines.verbatim.auth": "any client is let in; use the implementation's own policy",
}


def unsaid(plan: Plan) -> dict[Feature, str]:
    """The features in use that the API has no word for, with what holds instead."""
    found = {}
    for feature in plan.uses_by_feature():
        if feature.startswith("values."):
            found[feature] = "its values are the same for every request; such a route is left out"
        elif feature not in SAID:
            found[feature] = _WHY.get(feature, _BACKEND if feature.startswith("pool.") else _GATEWAY)
    return found


def written(plan: Plan, feature: Feature) -> list[str]:
    """The fields of the topology that ask for a feature; not a listener, route or pool that has it as every one does,
    and not a profile."""
    if feature == "metrics":
        return ["metrics"]  # one field makes them for all listeners
    if feature in ("engines.verbatim", "engines.verbatim.auth"):  # of one engine, but it may be an access rule
        return [use.field for use in plan.uses_of(feature)]
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
        origins = list(dict.fromkeys(map(plan.spans.origin, fields)))
        more = f" (and {len(origins) - 1} more)" if len(origins) > 1 else ""
        message = f"the Gateway API has no word for {feature}{more}: {why}"
        span = plan.use_spans.get(fields[0]) or plan.span(fields[0])
        if accepted & {feature, ACCEPT_ALL}:
            warnings.append(Diagnostic("LB310", message, span, origins[0], "", Severity.WARNING))
        else:
            hint = f"leave it out with --accept {feature}, or choose another target"
            refused.append(Diagnostic("LB311", message, span, origins[0], hint, accept=feature))
    if refused:
        raise LbgenError(refused)
    yield from warnings
