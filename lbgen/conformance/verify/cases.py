"""Helpers of the modules that make cases: phases, time windows, requests that reach a route."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from ipaddress import ip_network
from itertools import product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.corpus import drafts
from lbgen.conformance.transport import has_certificate_for, host_of
from lbgen.conformance.verify.credentials import with_credentials
from lbgen.plan.model import Forward, HostTable, Listener, Plan, Pool, PoolProtocol, Route, Rule
from lbgen.plan.policy import IDEMPOTENT, Access, KeyKind, Retries, RetryCause
from lbgen.plan.request import Draft, Request
from lbgen.plan.simulate import simulate

SERVER = "statuses.failures.server"  # what some engines say of themselves in answers of HTTP/2 endpoints
OTHER_NAME = "listener.tls.client.other_name"
BODY = "timeouts.idle.body"
STICKY = "pool.sticky.cookie"  # of engines whose cookies have values of their own
TUNNEL = ("timeouts.idle.tunnel", "timeouts.idle.tunnel_end")
ALIKE = "route.retries.alike"  # causes that an engine cannot tell apart
ONE_TIMER = ("timeouts.response.routes", "timeouts.response.longer")  # of engines with one for response and idle
HANG = {"mode": "hang", "wait_ms": 60_000}
_EXCUSES: dict[str, tuple[str, ...]] = {
    "6.idle": (BODY,),
    "6.request": (BODY, "timeouts.request"),
    **dict.fromkeys(("6.retries.close", "6.retries.reset"), (ALIKE, "route.retries")),
    "6.retries": ("route.retries",),
    "6.response": (ALIKE, *ONE_TIMER),
    **dict.fromkeys(("5.close", "5.reset", "6.connect"), (ALIKE,)),
}
_DENIED = 403
_LOOPBACK = ip_network("127.0.0.0/8")
_BENCHMARK = "198.18.0.0/15"
_ENOUGH = 16_384  # addresses, so that cases rarely share one


class Phase(StrEnum):
    """What the endpoints do meanwhile, in this order: what breaks them comes last. Cases of `FIRST` and `ALONE` run one
    by one, those of any other phase side by side."""

    FIRST = "answer, one request at a time, and nothing was asked before"
    CALM = "answer"
    HEAVY = "answer, to a few large bodies at a time; those of L4 say nothing"
    ALONE = "answer, one request at a time"
    REFUSING = "refuse, as services that are asked about requests"
    HUNG = "take requests and do not answer"
    REFUSED = "refuse connections"
    DROPPED = "drop connections"
    FOREIGN = "show the certificate of another, where they have any"


class ScheduledCase(Struct, frozen=True):
    """A case, and when it runs: while all endpoints, or those of `pool` only, are in `phase`."""

    case: Case
    phase: Phase = Phase.CALM
    pool: str = ""


def time_window(milliseconds: float, tries: int = 1) -> tuple[int, int]:
    """From when to when something that takes so long is in time, in milliseconds."""
    return round(0.93 * milliseconds - 15), round(1.15 * milliseconds + 40 * tries)


def fault_case(clause: str, request: Request, route: Route, *steps: dict[str, Any], **expect: Any) -> ScheduledCase:  # noqa: ANN401  # as `Expect` has it
    """A request that the endpoints treat as `steps` say, one step a try. The clause tells what may excuse it."""
    features = next((found for start, found in _EXCUSES.items() if clause.startswith(start)), ())
    features = tuple(feature for feature in features if feature != ALIKE or may_try_again(route))
    longest = expect.get("within_ms", (0, 2000))[1] / 1000
    case = Case("", clause, request, Expect(**expect), features, routes=(route.name,), steps=steps, timeout=longest + 2)
    return ScheduledCase(case)


def may_try_again(route: Route) -> bool:
    """Whether some cause makes an engine send a request again."""
    return isinstance(route.action, Forward) and route.action.retries is not None


def tries(retries: Retries | None, cause: RetryCause | int, method: str) -> int:
    """How often a request reaches endpoints while that cause persists."""
    if retries is None:
        return 1
    listed = cause in retries.statuses if isinstance(cause, int) else cause in retries.causes
    repeatable = retries.all_methods or method in IDEMPOTENT or cause is RetryCause.CONNECT_FAILURE
    return 1 + retries.max if listed and repeatable else 1


def script_case(
    clause: str,
    script: str,
    request: Request,
    params: dict[str, Any],
    features: tuple[str, ...],
    *routes: str,
    phase: Phase = Phase.CALM,
    tried: tuple[str, ...] = (),
) -> ScheduledCase:
    """A script as a case; `routes` are those it needs, `features` what may excuse it, `tried` fields that it tries
    beside those of its clause."""
    case = Case("", clause, request, Expect(), features, script=script, params=params, routes=routes)
    return ScheduledCase(replace(case, tries_fields=tried), phase)


first_case = partial(script_case, phase=Phase.FIRST)
alone_case = partial(script_case, phase=Phase.ALONE)


def with_headers(request: Request, *headers: tuple[str, str]) -> Request:
    """`request` with more headers."""
    return replace(request, headers=(*request.headers, *headers))


def route_requests(plan: Plan, listener: Listener, client: str) -> Iterator[tuple[Route, Request]]:
    """Each route with a request that it serves, for every host that has a table of its own: engines may write a route
    out for each of them."""
    for table in listener.hosts:
        seen = set()
        for rule in table.rules:
            if rule.route in seen:
                continue
            request = next(_served(plan, listener, table, rule, client), None)
            if request is not None:
                seen.add(rule.route)
                yield plan.route(rule.route), request


def _served(plan: Plan, listener: Listener, table: HostTable, rule: Rule, client: str) -> Iterator[Request]:
    """Requests that the rule's route serves: what fulfils it and no earlier rule takes away, by its path or its method,
    from an address that is let in."""
    methods = (None,) if rule.match.methods else (None, "POST")
    for draft, method in product(drafts(rule), methods):
        hosts = _hosts(listener, table, draft)
        for host, source in product(hosts, _clients(listener, plan.route(rule.route), client, draft)):
            request = replace(replace(draft, host=host).request(listener.name), client=source)
            request = request if method is None else replace(request, method=method)
            request = with_credentials(plan.route(rule.route), request)
            if is_served(plan, plan.route(rule.route), request):
                yield request


def is_served(plan: Plan, route: Route, request: Request) -> bool:
    """Whether the route takes the request and lets its client in."""
    outcome = simulate(plan, request)
    return outcome.route == route.name and _DENIED not in (outcome.status, *outcome.causes)


def _hosts(listener: Listener, table: HostTable, draft: Draft) -> tuple[str, ...]:
    """The host to ask for. Where clients show certificates it is one that its certificates name, if any: some
    engines answer others 421."""
    if table.host is not None:
        return (f"x.{table.host.name}" if table.host.wildcard else str(table.host),)
    certificates = () if listener.tls is None or listener.tls.client_ca is None else listener.tls.certificates
    names = dict.fromkeys(name for each in certificates for name in each.names)
    return (*(f"x.{name.name}" if name.wildcard else name.name for name in names), draft.host)


def _clients(listener: Listener, route: Route, client: str, draft: Draft) -> Iterator[str]:
    """Addresses to come from until one is let in; on loopback there is no other than our own."""
    yield client
    if not client.startswith("127."):
        yield from addresses((draft.client,))
        yield from listed_addresses(listener, route)


def listed_addresses(listener: Listener, route: Route) -> Iterator[str]:
    """Addresses that access lists may let in."""
    for access in (listener.access, route.access):
        yield from addresses((access and access.allow) or ())
    yield from addresses(listener.trusted_proxies)


def addresses(networks: tuple[str, ...]) -> Iterator[str]:
    """One address of each IPv4 network, not its first."""
    for text in networks:
        network = ip_network(text)
        if network.version == 4 and not network.overlaps(_LOOPBACK):
            yield str(network[min(9, network.num_addresses - 1)])


def reached_fields(pool: Pool) -> tuple[str, ...]:
    """The fields of a pool of one endpoint that any request tries which reaches it."""
    return (f"{pool.field}.balance", f"{pool.field}.endpoints[0].address") if len(pool.endpoints) == 1 else ()


def has_http2_upstream(plan: Plan, request: Request) -> bool:
    """Whether endpoints that it may go to are asked over HTTP/2."""
    pools = (plan.pool(upstream.pool) for upstream in simulate(plan, request).upstreams)
    return any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools)


def server_name_excuses(listener: Listener, request: Request) -> tuple[str, ...]:
    """What excuses a difference of a request for a host that is not the name the client has said in its handshake."""
    if listener.tls is None or listener.tls.client_ca is None:
        return ()
    host = host_of(request)
    return () if host is not None and has_certificate_for(listener.tls, host) else (OTHER_NAME,)


def distinct_client(number: int, *access: Access | None) -> str | None:
    """A client of its own for each request, so that limits by client do not add up: of the benchmark networks, or of
    those that `access` lets in. None when none of it is let in, or too few for that."""
    rules = [rule for rule in access if rule is not None]
    for text in (_BENCHMARK, *(text for rule in rules for text in rule.allow or ())):
        network = ip_network(text)
        if network.version == 4 and network.num_addresses >= _ENOUGH and not network.overlaps(_LOOPBACK):
            client = str(network[10 + number % min(100_000, network.num_addresses - _ENOUGH // 2)])
            if all(rule.admits(client) for rule in rules):
                return client
    return None


def is_limited_by_client(route: Route) -> bool:
    """Whether requests of one client are counted together."""
    return any(x is not None and x.key.kind is KeyKind.CLIENT_IP for x in (route.rate_limit, route.concurrency))


def has_health_checks(plan: Plan, action: Forward) -> bool:
    """Whether failures take endpoints out: then one fault changes what the next request meets."""
    pools = [plan.pool(target.pool) for target in action.targets]
    return any(pool.active is not None or pool.passive is not None for pool in pools)
