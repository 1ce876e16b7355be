"""Cases of L4 listeners: where connections go, and when they end."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from msgspec.structs import replace

from lbgen.conformance.corpus import NOWHERE
from lbgen.conformance.transport import has_certificate_for
from lbgen.conformance.verify import pools as pool_cases
from lbgen.conformance.verify.cases import Phase, ScheduledCase, alone_case, script_case, time_window
from lbgen.conformance.verify.handshakes import NO_NAME, names
from lbgen.plan.model import Balance, Forward, Listener, Plan, Protocol
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate_l4
from lbgen.plan.tls import ListenerTls

_IDLE, _CONNECT = ("timeouts.idle.l4",), ("timeouts.connect.l4",)


def l4_cases(plan: Plan, listener: Listener, client: str) -> Iterator[ScheduledCase]:
    """Cases of one listener: from every network that a rule names, with every server name, each on either side."""
    timed: set[str] = set()
    for source in _clients(plan, listener, client):
        if listener.protocol is Protocol.UDP:
            yield _datagrams(plan, listener, source)
            outcome = simulate_l4(plan, listener.name, None, source)
            if outcome.route is not None and outcome.pools and outcome.route not in timed:
                timed.add(outcome.route)
                request = Request(listener=listener.name, client=source)
                yield from _pools(plan, listener, request, outcome.route)
            continue
        for sni in _names(listener):
            known = listener.tls is None or listener.tls.passthrough or _held(listener.tls, sni)
            outcome = simulate_l4(plan, listener.name, sni, source)
            pools = [name for name, _ in outcome.pools] if known else []
            request = Request(listener=listener.name, client=source)
            params = {"listener": listener.name, "client": source, "pools": pools, "sni": sni}
            routes = () if outcome.route is None else (outcome.route,)
            features = NO_NAME if sni is None and listener.tls is not None and not listener.tls.passthrough else ()
            yield alone_case("7.bytes", "bytes_reach", request, params, features, *routes)
            if (
                outcome.route is None
                or not pools
                or (sni is None and listener.tls is not None)
                or outcome.route in timed
            ):
                continue
            timed.add(outcome.route)
            action = plan.route(outcome.route).action
            if isinstance(action, Forward):
                secure = listener.tls is not None and not listener.tls.passthrough
                crowded = any(plan.pool(name).max_per_endpoint is not None for name in pools)
                calm = Phase.ALONE if crowded else Phase.CALM
                yield from _times(action, request, params, outcome.route, calm, secure=secure)
                headers = () if sni is None else (("Host", sni),)
                yield from _pools(plan, listener, replace(request, headers=headers), outcome.route)


def _pools(plan: Plan, listener: Listener, request: Request, name: str) -> Iterator[ScheduledCase]:
    """What the pools of a route do with connections beside carrying them."""
    route = plan.route(name)
    action = route.action
    targets = [target for target in action.targets if target.weight] if isinstance(action, Forward) else []
    # HTTP asks the endpoints for their names; without a Host (no TLS) any will do.
    asked = request if request.headers else replace(request, headers=(("Host", NOWHERE),))
    total = sum(target.weight for target in targets)
    if len(targets) > 1:
        share = {target.pool: pool_cases.deviation_bounds(target.weight / total) for target in targets}
        params = {"request": asked, "times": pool_cases.TIMES, "by": "l4 pool", "share": share}
        features, tried = ("route.forward.split",), (f"routes[{name}].forward",)
        yield alone_case("7.split", "shares_hold", asked, params, features, name, tried=tried)
    for target in targets:
        of = target.pool if len(targets) > 1 else ""
        access = (listener.access, route.access)
        pool = plan.pool(target.pool)
        turns = sum(1 for each in pool.endpoints if each.weight and not each.backup)
        idle = action.timeouts.idle if isinstance(action, Forward) else 0
        if listener.protocol is Protocol.UDP and idle and not of and turns > 1 and pool.balance is Balance.ROUND_ROBIN:
            params = {"request": asked, "count": turns, "within_ms": time_window(idle)}
            one = alone_case("7.idle.datagrams", "datagram_flows_end", asked, params, _IDLE, name)
            yield replace(one)
        yield from pool_cases.pool_cases(plan, pool, asked, route, access, of)


def _datagrams(plan: Plan, listener: Listener, source: str) -> ScheduledCase:
    outcome = simulate_l4(plan, listener.name, None, source)
    params = {"listener": listener.name, "client": source, "pools": [name for name, _ in outcome.pools]}
    routes = () if outcome.route is None else (outcome.route,)
    request = Request(listener=listener.name, client=source)
    return alone_case("7.datagrams", "datagrams_reach", request, params, (), *routes)


def _times(
    action: Forward, request: Request, common: dict[str, Any], route: str, calm: Phase, *, secure: bool
) -> Iterator[ScheduledCase]:
    """`secure`: the listener ends TLS, which has no half-closed connections."""
    times = action.timeouts
    if times.idle:
        for clause, mute, half in (
            ("7.idle", False, False),
            ("7.idle.unanswered", True, False),
            ("7.idle.half-closed", True, True),
        ):
            params = {**common, "within_ms": time_window(times.idle), "mute": mute, "half": half}
            if half and secure:
                continue
            phase = Phase.HEAVY if mute else calm
            yield script_case(clause, "bytes_idle", request, params, _IDLE, route, phase=phase)
    if times.connect:
        params = {**common, "within_ms": time_window(times.connect)}
        yield script_case("7.connect", "bytes_connect", request, params, _CONNECT, route, phase=Phase.DROPPED)


def _names(listener: Listener) -> Iterator[str | None]:
    """A server name for each that a rule or a certificate has, one of neither, and none; without TLS there are none."""
    if listener.tls is None:
        yield None
        return
    ruled = (rule.sni for rule in listener.l4_rules if rule.sni is not None)
    yield from dict.fromkeys((*(f"x.{x.name}" if x.wildcard else x.name for x in ruled), *names(listener.tls)))
    yield NOWHERE
    yield None


def _held(tls: ListenerTls, sni: str | None) -> bool:
    """Whether a certificate serves clients of that name; the first serves those without."""
    return sni is None or has_certificate_for(tls, sni)


def _clients(plan: Plan, listener: Listener, client: str) -> Iterator[str]:
    """An address of every network that a rule or an access list names, and one of none."""
    yield client
    if client.startswith("127."):  # no other address is ours here
        return
    sources = [source for rule in listener.l4_rules for source in rule.sources]
    for access in (listener.access, *(plan.route(rule.route).access for rule in listener.l4_rules)):
        sources += () if access is None else (*access.deny, *(access.allow or ()))
    for network in dict.fromkeys(sources):
        found = ip_network(network)
        if found.version == 4:
            yield str(found[min(7, found.num_addresses - 1)])
