"""Choose the request of a benchmark: a GET that the plan forwards to endpoints which speak plain HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.corpus import matching_draft
from lbgen.conformance.verify.addresses import LOOPBACK
from lbgen.diagnostics import Diagnostic, UsageError
from lbgen.plan.model import Forward, Listener, Mode, Plan, Pool, Protocol
from lbgen.plan.pool import PoolProtocol
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate, simulate_l4
from lbgen.plan.tls import ListenerTls

_HINT = "--url HTTP-URL chooses another request; `lbgen route` says what a request meets"


class LoadTarget(Struct, frozen=True):
    """`headers` begin with Host; `target` is path and query as sent; `endpoint` is the field of an endpoint that serves
    the request. `server_name`: what TLS to the listener asks for; None: no TLS. `http2`: the listener speaks it too."""

    listener: str
    route: str
    target: str
    headers: tuple[tuple[str, str], ...]
    endpoint: str
    server_name: str | None = None
    http2: bool = False


def choose_target(
    plan: Plan, request: Request | None = None, listener: str | None = None, *, several: bool = False
) -> LoadTarget:
    """The load's request: `request`, a GET, else the first one of a route without limits that forwards, on `listener`
    or any; listeners of layer 4 come last. `several`: rather one that several endpoints serve.

    Raises UsageError LB431 when it is not forwarded, or no client of `lbgen bench` speaks what it needs."""
    if listener is not None and listener not in {each.name for each in plan.listeners}:
        raise UsageError(Diagnostic("LB431", f"the topology has no listener {listener}"))
    if request is not None:
        found = _target(plan, request)
        if isinstance(found, str):
            raise UsageError(Diagnostic("LB431", f"the request cannot be measured: {found}", hint=_HINT))
        return found
    reasons = []
    alone: LoadTarget | None = None
    for found in _targets(plan, listener):
        if isinstance(found, str):
            reasons.append(found)
        elif not several or _has_several(plan, found):
            return found
        else:
            alone = alone or found
    if alone is not None:
        return alone
    why = reasons[0] if reasons else "no route forwards a GET"
    raise UsageError(Diagnostic("LB431", f"no request of the topology can be measured: {why}", hint=_HINT))


def _has_several(plan: Plan, target: LoadTarget) -> bool:
    pool = next(p for p in plan.pools if any(x.field == target.endpoint for x in p.endpoints))
    return sum(x.weight > 0 and not x.backup for x in pool.endpoints) > 1


def _targets(plan: Plan, name: str | None) -> Iterator[LoadTarget | str]:
    """The own GET of each rule: those of routes without limits first, each group in the order of the file; then one of
    each listener of layer 4. Where something cannot be measured, the reason."""
    found = []
    listeners = [each for each in plan.listeners if name in (None, each.name)]
    for listener in listeners:
        if listener.mode is Mode.L7:
            for rule in {rule.id: rule for table in listener.hosts for rule in table.rules}.values():
                route, draft = plan.route(rule.route), matching_draft(rule)
                if isinstance(route.action, Forward) and draft is not None and draft.method == "GET":
                    limited = route.rate_limit is not None or route.concurrency is not None
                    found.append(((limited, route.index), draft.request(listener.name)))
    for _, request in sorted(found, key=lambda each: each[0]):
        yield _target(plan, request)
    for listener in listeners:
        if listener.mode is Mode.L4:
            yield _l4_target(plan, listener)


def _target(plan: Plan, request: Request) -> LoadTarget | str:
    """What is measured, or why it cannot be."""
    listener = plan.listener(request.listener)
    if listener.proxy_protocol:
        return f"listener {listener.name} expects a PROXY header, which `lbgen bench` does not send"
    name: str | None = None
    if listener.tls is not None:
        if listener.tls.client_required:
            return f"listener {listener.name} expects certificates of clients, which `lbgen bench` does not show"
        request, name = _with_certified_host(request, listener.tls)
    outcome = simulate(plan, request)
    if outcome.status is not None or outcome.route is None or not outcome.upstreams:
        return f"{request.target} is not forwarded ({outcome.reason})"
    pools = [plan.pool(each.pool) for each in outcome.upstreams]
    for pool in pools:
        if (why := _unusual(pool)) is not None:
            return f"pool {pool.name} {why}, which the endpoint of `lbgen bench` does not speak"
    headers = sorted(request.headers, key=lambda each: each[0].lower() != "host")
    endpoint = _endpoint(pools)
    return LoadTarget(request.listener, outcome.route, request.target, tuple(headers), endpoint, name, listener.http2)


def _with_certified_host(request: Request, tls: ListenerTls) -> tuple[Request, str]:
    """The request, and the name that TLS asks for: its host, else a name that a certificate holds, which is its host
    then, since engines refuse other names in the handshake."""
    host = next((value for name, value in request.headers if name.lower() == "host"), "")
    bare = re.sub(r":\d+$", "", host)
    names = [name for certificate in tls.certificates for name in certificate.names]
    above = bare.partition(".")[2]  # a wildcard of a certificate covers one label
    if not names or any(x.name == (above if x.wildcard else bare) for x in names):
        return request, bare
    other = f"x.{names[0].name}" if names[0].wildcard else names[0].name
    headers = tuple((name, other if name.lower() == "host" else value) for name, value in request.headers)
    return replace(request, headers=headers), other


def _l4_target(plan: Plan, listener: Listener) -> LoadTarget | str:
    """HTTP through a listener of layer 4, or why it cannot be measured."""
    if listener.protocol is not Protocol.TCP or listener.tls is not None or listener.proxy_protocol:
        return f"listener {listener.name} is not plain TCP"
    outcome = simulate_l4(plan, listener.name)
    if outcome.route is None or not outcome.pools:
        return f"listener {listener.name} does not forward ({outcome.reason})"
    pools = [plan.pool(name) for name, _ in outcome.pools]
    for pool in pools:
        if pool.tls is not None or pool.proxy_protocol is not None:
            return f"pool {pool.name} is not plain TCP"
    return LoadTarget(listener.name, outcome.route, "/", (("Host", LOOPBACK),), _endpoint(pools))


def _endpoint(pools: Sequence[Pool]) -> str:
    return next((x for pool in pools for x in pool.endpoints if x.weight), pools[0].endpoints[0]).field


def _unusual(pool: Pool) -> str | None:
    if pool.tls is not None:
        return "speaks TLS"
    if pool.protocol is not PoolProtocol.HTTP1:
        return "speaks HTTP/2"
    return "expects a PROXY header" if pool.proxy_protocol is not None else None
