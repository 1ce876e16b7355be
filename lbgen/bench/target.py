"""Choose the request of a benchmark: a GET that the plan forwards, over plain HTTP on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lbgen.conformance.corpus import matching_draft
from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.plan.model import Forward, Mode, Plan
from lbgen.plan.pool import PoolProtocol
from lbgen.plan.simulate import simulate

if TYPE_CHECKING:
    from lbgen.plan.model import Pool
    from lbgen.plan.request import Request

_HINT = "--url HTTP-URL chooses another request; `lbgen route` says what a request meets"


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """`headers` begin with Host; `target` is path and query as sent; `endpoint` is the field of an endpoint that serves
    the request."""

    listener: str
    route: str
    target: str
    headers: tuple[tuple[str, str], ...]
    endpoint: str


def choose_target(plan: Plan, request: Request | None = None) -> LoadTarget:
    """The load's request: `request`, a GET, else the first one of a route without limits that forwards.

    Raises UsageError LB431 when it is not forwarded, or goes over TLS, HTTP/2 to the endpoint, or a PROXY header."""
    if request is not None:
        found = _target(plan, request)
        if isinstance(found, str):
            raise UsageError(Diagnostic("LB431", f"the request cannot be measured: {found}", hint=_HINT))
        return found
    reasons = []
    for each in _requests(plan):
        found = _target(plan, each)
        if isinstance(found, LoadTarget):
            return found
        reasons.append(found)
    why = reasons[0] if reasons else "no route of an L7 listener forwards a GET"
    raise UsageError(Diagnostic("LB431", f"no request of the topology can be measured: {why}", hint=_HINT))


def _requests(plan: Plan) -> Iterator[Request]:
    """The own GET of each rule: those of routes without limits first, each group in the order of the file."""
    found = []
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            for rule in {rule.id: rule for table in listener.hosts for rule in table.rules}.values():
                route, draft = plan.route(rule.route), matching_draft(rule)
                if isinstance(route.action, Forward) and draft is not None and draft.method == "GET":
                    limited = route.rate_limit is not None or route.concurrency is not None
                    found.append(((limited, route.index), draft.request(listener.name)))
    for _, request in sorted(found, key=lambda each: each[0]):
        yield request


def _target(plan: Plan, request: Request) -> LoadTarget | str:
    """What is measured, or why it cannot be."""
    listener = plan.listener(request.listener)
    if listener.tls is not None or listener.proxy_protocol:
        what = "TLS" if listener.tls is not None else "a PROXY header"
        return f"listener {listener.name} expects {what}, which `lbgen bench` does not send"
    outcome = simulate(plan, request)
    if outcome.status is not None or outcome.route is None or not outcome.upstreams:
        return f"{request.target} is not forwarded ({outcome.reason})"
    pools = [plan.pool(each.pool) for each in outcome.upstreams]
    for pool in pools:
        if (why := _unusual(pool)) is not None:
            return f"pool {pool.name} {why}, which the endpoint of `lbgen bench` does not speak"
    headers = sorted(request.headers, key=lambda each: each[0].lower() != "host")
    endpoint = next((x for pool in pools for x in pool.endpoints if x.weight), pools[0].endpoints[0])
    return LoadTarget(request.listener, outcome.route, request.target, tuple(headers), endpoint.field)


def _unusual(pool: Pool) -> str | None:
    if pool.tls is not None:
        return "speaks TLS"
    if pool.protocol is not PoolProtocol.HTTP1:
        return "speaks HTTP/2"
    return "expects a PROXY header" if pool.proxy_protocol is not None else None
