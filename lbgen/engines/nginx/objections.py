"""Single places of a plan that nginx honours only in part, or cannot hold at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeGuard

from lbgen.engines import escapes
from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.nginx import header_objections, matching
from lbgen.engines.nginx.health_checks import steered
from lbgen.engines.nginx.l4 import manners
from lbgen.engines.nginx.limits import rate
from lbgen.engines.nginx.location_tree import Candidate
from lbgen.engines.nginx.names import Names
from lbgen.engines.nginx.queues import queued
from lbgen.engines.nginx.request_values import Values
from lbgen.engines.nginx.retries import most, separate_backups
from lbgen.engines.nginx.support import NOMINATED, OLD
from lbgen.engines.nginx.upstream_protocols import GRPC, kind
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Mode, PathKind, PoolProtocol, Protocol, Redirect, Respond, ValueKind
from lbgen.plan.policy import KeyKind, PathsMode, RetryCause
from lbgen.plan.regex import matches_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.plan.model import HeaderEdits, Match, Plan, Pool, Route, Rule, Target, Timeouts
    from lbgen.plan.policy import Key

_NAMED_BY_VARIABLE = re.compile(r"[a-z0-9_-]+")
_LONGEST = 3900  # bytes of one parameter, with room for its quotes and what stands beside it on the line
_OWN = ("server", "date")
_OWN_OF_REDIRECT = ("content-type", "location")


def objections(plan: Plan, version: str) -> Iterator[Objection]:
    """Verdicts on places, in the order of the topology."""
    yield from _pools(plan, version)
    yield from _counted_clients(plan)
    yield from _normalised(plan, version)
    yield from _l4(plan, version)
    yield from _proxy_headers(plan)
    yield from header_objections.objections(plan)
    for field, file in plan.named_files():
        if "$" in file.path:
            yield Objection(refused("nginx reads a variable in the path of a file with a dollar sign"), field)
    if version != OLD:
        yield from _nominated(plan)
    for listener in plan.listeners:
        if version == OLD and listener.http2 and listener.tls is None:
            why = "nginx 1.22 cannot speak both HTTP/1.1 and HTTP/2 on a port without TLS (1.25 and newer can)"
            yield Objection(refused(why), f"{listener.field}.http2", Feature.HTTP2)
        if version == OLD and listener.http2 and listener.limits.headers is not None:
            why = "over HTTP/2 nginx 1.22 counts what HPACK makes of headers, which may be far less"
            less = {"listener.limits.http2": ("text: over, huffman-coded: 200", "text: over, repeated: 200")}
            yield Objection(approximate(why, less), f"{listener.field}.limits", Feature.LISTENER_LIMITS)
        if listener.tls is not None and listener.tls.client_ca is not None and listener.mode is Mode.L7:
            why = "a request for another host than the server name of its handshake is answered 421"
            shows = {
                "listener.tls.client.other_name": (
                    "status 421",
                    "text: 421",
                    "text: tries reached",
                    "text: the body",
                    "text: took",
                    "text: no endpoint",
                    "text: requests passed",
                )
            }
            yield Objection(approximate(why, shows), f"{listener.field}.tls.client", Feature.TLS_CLIENT_CERT)
    l4 = {rule.route for x in plan.listeners for rule in x.l4_rules}
    for route in plan.routes:
        yield from _route(route, l7=route.name not in l4)
        if route.name not in l4:
            yield from _one_way(plan, route, version)
            yield from _tried_full(plan, route)
            if version != OLD:
                yield from _queue(plan, route)
    rules = {rule.rank: rule for x in plan.listeners for table in x.hosts for rule in table.rules}
    for rank in sorted(rules):
        yield from _rule(rules[rank])


def _pools(plan: Plan, version: str) -> Iterator[Objection]:
    for pool in plan.pools:
        if pool.sticky is not None:
            yield from _sticky(pool, version)
        if pool.hash_key is not None:
            yield from _key(pool.hash_key, f"{pool.field}.balance")
        if pool.tls is not None and pool.tls.server_name is None:
            yield from _names_in_certificates(pool)
        yield from _forgotten(pool, checked=steered(plan))
    if version == OLD or plan.resolvers:
        return
    for pool in plan.pools:
        for endpoint in pool.endpoints:
            if not endpoint.is_ip:
                why = (
                    "nginx must be told a DNS server for names of endpoints; add `resolvers: [ADDRESS]` to the topology"
                )
                yield Objection(refused(why), endpoint.field, Feature.ENDPOINT_NAMES)
                return


def _l4(plan: Plan, version: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.mode is Mode.L7:
            continue
        found = manners(plan, listener)
        if len(found) > 1:
            why = (
                "nginx has one set of times, TLS and PROXY header to endpoints for a port; give all its routes the same"
            )
            yield Objection(refused(why), listener.field, Feature.L4_TCP)
        if version == OLD and listener.tls is not None and not listener.tls.passthrough:
            why = "nginx 1.22 does not look at server names where it ends TLS for L4 (1.25 and newer do)"
            yield Objection(refused(why), f"{listener.field}.tls", Feature.TLS_TERMINATE)
        if listener.protocol is Protocol.UDP and listener.proxy_protocol:
            why = "nginx reads no PROXY header from datagrams"
            yield Objection(refused(why), f"{listener.field}.proxy_protocol", Feature.PROXY_PROTOCOL_IN)


def _nominated(plan: Plan) -> Iterator[Objection]:
    """Lines for the fields that are left can only be written where endpoints get lines."""
    for listener in plan.listeners:
        routes = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
        pools = [plan.pool(target.pool) for name in routes for target in _targets(plan.route(name))]
        if any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools):
            note = f"{NOMINATED}, where its endpoint speaks HTTP/2"
            shows = {"headers.connection_nominated.http2": "status 400"}
            yield Objection(approximate(note, shows), listener.field, Feature.CONNECTION_NOMINATED)


def _proxy_headers(plan: Plan) -> Iterator[Objection]:
    l4 = {t.pool for x in plan.listeners for rule in x.l4_rules for t in _targets(plan.route(rule.route))}
    for pool in plan.pools:
        if pool.proxy_protocol == "v2" and pool.name in l4:
            why = "nginx sends the PROXY header in version 1 only; say proxy_protocol: v1"
            yield Objection(refused(why), f"{pool.field}.proxy_protocol", Feature.L4_PROXY_PROTOCOL_OUT)


def _targets(route: Route) -> tuple[Target, ...]:
    return route.action.targets if isinstance(route.action, Forward) else ()


def _normalised(plan: Plan, version: str) -> Iterator[Objection]:
    """The gRPC module passes a target on as it came, or decodes it."""
    for listener in plan.listeners:
        if listener.paths.mode is not PathsMode.NORMALIZE:
            continue
        for name in dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules):
            route = plan.route(name)
            pools = route.action.targets if isinstance(route.action, Forward) else ()
            if any(kind(plan.pool(t.pool), old=version == OLD) == GRPC for t in pools):
                why = "nginx's gRPC module, which is how it speaks HTTP/2 here, cannot be given a normalised target"
                yield Objection(refused(why), f"{route.field}.forward", Feature.PATHS_NORMALIZE)


def _forgotten(pool: Pool, *, checked: bool) -> Iterator[Objection]:
    """What nginx does not know after the agent had it load new lists."""
    what = "of every pool, each time that a check takes an endpoint out or brings one back"
    if checked and pool.passive is not None:
        note = f"nginx forgets which endpoints are ejected, {what}"
        shows = {"pool.health.passive.beside_checks": "text: ejected, then a check"}
        yield Objection(approximate(note, shows), f"{pool.field}.health.passive", Feature.HEALTH_PASSIVE)
    if checked and pool.max_per_endpoint is not None:
        note = f"nginx forgets how many requests its endpoints have, {what}: until those end, there may be more"
        shows = {"pool.connections.max_per_endpoint.beside_checks": "text: the only place is taken, then a check"}
        place = f"{pool.field}.connections.max_per_endpoint"
        yield Objection(approximate(note, shows), place, Feature.MAX_PER_ENDPOINT)
    if pool.slow_start and pool.active is None and pool.passive is None:
        why = "slow start is the agent's on nginx, for endpoints that active checks bring back; say health.active too"
        yield Objection(refused(why), f"{pool.field}.slow_start", Feature.SLOW_START)
    if pool.slow_start and pool.passive is not None:
        note = "an endpoint that was ejected for failing in traffic gets its full share at once when it is back"
        shows = {"pool.slow_start.after_ejection": "text: just back"}
        yield Objection(approximate(note, shows), f"{pool.field}.slow_start", Feature.SLOW_START)


def _queue(plan: Plan, route: Route) -> Iterator[Objection]:
    """What does not go with requests that wait."""
    action = route.action
    if not isinstance(action, Forward):
        return
    pools = [plan.pool(t.pool) for t in action.targets if t.weight]
    clashes = (
        (action.retries is not None, f"retries of {route.name}: it follows ten hops of a request"),
        (len(pools) > 1, f"the split of {route.name}: a request waits for one pool"),
        (any(separate_backups(pool) for pool in pools), "backups and this balance: they are a pool of their own"),
    )
    if any(map(queued, pools)) and not action.buffering.request:
        note = (
            "the body of a request that may have to wait is read whole before it goes on, although the route streams "
            "(buffering.request: true asks for just that)"
        )
        shows = {"pool.connections.queue.streamed": "text: before its end"}
        yield Objection(approximate(note, shows), f"{route.field}.buffering", Feature.QUEUE)
    for pool in pools:
        for clash, what in clashes:
            if queued(pool) and clash:
                why = f"on nginx a queue does not go with {what}"
                yield Objection(refused(why), f"{pool.field}.connections.queue", Feature.QUEUE)
                break


def _sticky(pool: Pool, version: str) -> Iterator[Objection]:
    if any(not e.is_ip for e in pool.endpoints):
        why = (
            "nginx knows which address answered, not which name, so it cannot set the cookie of an endpoint with a name"
        )
        yield Objection(refused(why), f"{pool.field}.sticky", Feature.STICKY)
    if version != OLD and any(e.backup for e in pool.endpoints):
        note = "a cookie that names a backup does not count while another endpoint is up"
        named = {"pool.sticky.backup": ("text: the cookie names", "header set-cookie")}
        yield Objection(approximate(note, named), f"{pool.field}.sticky", Feature.STICKY)
    if version == OLD and (pool.passive is not None or pool.max_per_endpoint is not None):
        note = (
            "nginx 1.22 counts failures and requests of clients with a cookie apart from those of clients without: an "
            "endpoint that is out for the ones may serve the others"
        )
        shows = {"pool.sticky.ejected": "text: is ejected"}
        yield Objection(approximate(note, shows), f"{pool.field}.sticky", Feature.STICKY)


def _names_in_certificates(pool: Pool) -> Iterator[Objection]:
    if pool.tls is not None and pool.tls.verify and any(e.is_ip for e in pool.endpoints):
        why = "nginx finds names in certificates, not addresses; say tls.server_name, or verify: false"
        yield Objection(refused(why), f"{pool.field}.tls", Feature.POOL_TLS)
        return
    hosts = {e.host for e in pool.endpoints}
    if len(hosts) > 1 and not all(e.is_ip for e in pool.endpoints):
        why = "nginx knows an endpoint's address when it checks its certificate, not its name; say tls.server_name"
        yield Objection(refused(why), f"{pool.field}.tls", Feature.POOL_TLS)


def _one_way(plan: Plan, route: Route, version: str) -> Iterator[Objection]:
    """What the transport of a route's pools does not go with."""
    action = route.action
    if not isinstance(action, Forward):
        return
    old = version == OLD
    pools = [plan.pool(t.pool) for t in action.targets if t.weight]
    for mirror in action.mirrors:
        if kind(plan.pool(mirror.pool), old=old) == GRPC:
            why = "nginx's gRPC module, which is how it speaks HTTP/2 here, decodes the target of a copy"
            yield Objection(refused(why), mirror.field, Feature.MIRROR)
    if any(kind(pool, old=old) == GRPC for pool in pools):
        if action.rewrite is not None and (action.rewrite.path is not None or action.rewrite.prefix is not None):
            why = "nginx's gRPC module, which is how it speaks HTTP/2 here, cannot be given another target"
            yield Objection(refused(why), f"{route.field}.rewrite")
        if action.retries is not None:
            why = "nginx's gRPC module, which is how it speaks HTTP/2 here, keeps no body for a further try"
            yield Objection(refused(why), f"{route.field}.retries", Feature.RETRIES)


def _counted_clients(plan: Plan) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.proxy_protocol and listener.trusted_proxies:
            served = {rule.route for table in listener.hosts for rule in table.rules}
            for route in plan.routes:
                for name, counter in (("rate_limit", route.rate_limit), ("concurrency", route.concurrency)):
                    if route.name in served and counter is not None and counter.key.kind is KeyKind.CLIENT_IP:
                        why = (
                            "nginx takes the address of a client from the PROXY header or from X-Forwarded-For, not "
                            f"from both; leave out trusted_proxies of {listener.name}, or count by a header"
                        )
                        yield Objection(refused(why), f"{route.field}.{name}", None)


def _limits(route: Route) -> Iterator[Objection]:
    limit = route.rate_limit
    if limit is not None and rate(limit) is None:
        minute = max(1, round(limit.amount * 60 / limit.seconds))
        why = f"nginx counts in whole requests per second or minute; the nearest is {minute}/m"
        yield Objection(refused(why), f"{route.field}.rate_limit", Feature.RATE_LIMIT)
    if limit is not None:
        yield from _key(limit.key, f"{route.field}.rate_limit")
    if route.concurrency is not None:
        yield from _key(route.concurrency.key, f"{route.field}.concurrency")


def _retries(route: Route) -> Iterator[Objection]:
    wanted = route.action.retries if isinstance(route.action, Forward) else None
    if wanted is None:
        return
    whole = isinstance(route.action, Forward) and route.action.buffering.request
    if wanted.max > (bound := most(wanted, held=whole)):
        why = f"nginx follows ten hops of a request, which is enough for {bound} extra tries here"
        yield Objection(refused(why), f"{route.field}.retries.max", Feature.RETRIES)
    if wanted.all_methods and whole and RetryCause.TIMEOUT in wanted.causes:
        note = "an endpoint that stops reading a body that nginx has whole (request buffering) is a timeout too"
        shows = dict.fromkeys(("timeouts.idle.upload", "timeouts.idle.upload_again"), "text: the upload took")
        yield Objection(approximate(note, shows), f"{route.field}.retries", Feature.TIMEOUT_IDLE)
    if wanted.statuses and not {502, 504} <= set(wanted.statuses):
        note = (
            "nginx puts its own body in the place of an endpoint's answer of 502 or 504 when other statuses are "
            "retried; list 502 and 504 too to have them as they come"
        )
        yield Objection(
            approximate(note, {"route.retries.own_502": ("text", "status 502")}),
            f"{route.field}.retries",
            Feature.RETRIES,
        )


def _tried_full(plan: Plan, route: Route) -> Iterator[Objection]:
    wanted = route.action.retries if isinstance(route.action, Forward) else None
    pools = [plan.pool(target.pool) for target in _targets(route)]
    if wanted is not None and any(pool.max_per_endpoint is not None and len(pool.endpoints) > 1 for pool in pools):
        shows = {"pool.connections.max_per_endpoint.tries": "text: at a time"}
        note = "a further try may go to an endpoint that is full"
        yield Objection(approximate(note, shows), f"{route.field}.retries", Feature.MAX_PER_ENDPOINT)


def _key(key: Key, field: str) -> Iterator[Objection]:
    if key.kind is KeyKind.HEADER and not _NAMED_BY_VARIABLE.fullmatch(key.name):
        yield Objection(refused(f"nginx cannot read the header {key.name}"), field)


def _route(route: Route, *, l7: bool) -> Iterator[Objection]:
    action = route.action
    yield from _limits(route)
    yield from _retries(route)
    if isinstance(action, Forward):
        if l7:
            yield from _times(action.timeouts, route.field)
        for edits in (route.request_headers, *(t.request_headers for t in action.targets)):
            yield from _added(edits, route.field)
        yield from _shares(action)
    own = _OWN + (_OWN_OF_REDIRECT if isinstance(action, Redirect) else ())
    edits = route.response_headers
    shown = [name for name, _ in (*edits.set, *edits.add)] + list(edits.remove)
    if isinstance(action, Respond):
        shown += [name for name, _ in action.headers]
    for name in dict.fromkeys(shown):
        if name in own:
            yield Objection(refused(f"nginx writes {name} itself and lets nobody change it"), route.field)


def _times(wanted: Timeouts, field: str) -> Iterator[Objection]:
    if wanted.response == wanted.idle:
        return
    used, asked = _shown(wanted.response), _shown(wanted.idle)
    note = (
        f"nginx has one timer for an endpoint's head and for silence in the body: both end after {used} (response), "
        f"while {asked} (idle) rules tunnels and what is sent; give both the same time to have both as asked"
    )
    shows = {"timeouts.idle.body": ("cut", "time")}
    yield Objection(approximate(note, shows), f"{field}.timeouts", Feature.TIMEOUT_IDLE)


def _shown(milliseconds: int) -> str:
    if milliseconds == 0:
        return "no limit of time"
    return f"{milliseconds / 1000:g} s"


def _shares(action: Forward) -> Iterator[Objection]:
    """Of a header that one target of a split edits, the others get the client's, which nginx has to read."""
    for target in action.targets if len(action.targets) > 1 else ():
        edits = target.request_headers
        for name in dict.fromkeys((*(name for name, _ in (*edits.set, *edits.add)), *edits.remove)):
            if not _NAMED_BY_VARIABLE.fullmatch(name):
                why = f"nginx cannot read the header {name}, so it cannot leave it alone for other targets"
                yield Objection(refused(why), f"{target.field}.request_headers")


def _added(edits: HeaderEdits, field: str) -> Iterator[Objection]:
    for name, _ in edits.add:
        if not _NAMED_BY_VARIABLE.fullmatch(name):
            yield Objection(refused(f"nginx cannot read the header {name}, so nothing can be added to it"), field)


def _rule(rule: Rule) -> Iterator[Objection]:
    match = rule.match
    for wanted in match.headers:
        if not _NAMED_BY_VARIABLE.fullmatch(wanted.name):
            yield Objection(refused(f"nginx cannot read the header {wanted.name}"), rule.field)
        elif wanted.value.kind is ValueKind.REGEX and matches_whole(wanted.value.value, ""):
            note = f"nginx cannot tell an empty header {wanted.name} from a missing one and takes both for missing"
            shows = {"match.headers.regex.empty": "status 404"}
            yield Objection(approximate(note, shows), rule.field, Feature.HEADER_REGEX)
    for wanted in match.query:
        if wanted.value.kind is ValueKind.REGEX and escapes.has_boundary(escapes.parse(wanted.value.value)):
            yield Objection(refused(r"nginx cannot find \b in a percent-encoded value"), rule.field)
            return
    if _conditional(match):
        values, candidate = Values(Names()), Candidate(rule, test_path=True)
        if len(matching.pattern(candidate, matching.inputs([candidate], values), values)) > _LONGEST:
            yield Objection(refused("what this match asks for is more than nginx reads in one line"), rule.field)


def _conditional(match: Match) -> TypeGuard[Match]:
    return not match.path_only or match.path.kind is PathKind.REGEX or len(match.path.value) > _LONGEST // 16
