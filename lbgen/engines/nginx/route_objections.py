"""Objections to routes: limits, retries, queues, timeouts, protocols of pools, edits of headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, refused
from lbgen.engines.nginx.header_objections import is_readable, key_objections
from lbgen.engines.nginx.limits import format_rate
from lbgen.engines.nginx.queues import has_queue
from lbgen.engines.nginx.retries import max_retries
from lbgen.engines.nginx.support import VERSIONS
from lbgen.engines.nginx.upstream_protocols import GRPC, upstream_module
from lbgen.engines.nginx.upstreams import has_separate_backups
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Redirect, Respond
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.nginx.support import Version
    from lbgen.plan.model import HeaderEdits, Plan, Route, Timeouts

_OWN_HEADERS = ("server", "date")
_OWN_HEADERS_OF_REDIRECTS = ("content-type", "location")
_GRPC_MODULE = "nginx's gRPC module, which implements HTTP/2 to endpoints here,"


def route_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """The objections to all routes, in the order of the topology."""
    l4 = {rule.route for x in plan.listeners for rule in x.l4_rules}
    has_queues = VERSIONS[version].upstreams and any(map(has_queue, plan.pools))
    has_grpc = any(upstream_module(pool, VERSIONS[version]) == GRPC for pool in plan.pools)
    for route in plan.routes:
        if route.rate_limit is not None or route.concurrency is not None:
            yield from _limits(route)
        action = route.action
        if isinstance(action, Forward):
            if action.retries is not None:
                yield from _retries(route, action)
            if action.timeouts.response != action.timeouts.idle and route.name not in l4:
                yield _timeouts(action.timeouts, route.field)
            yield from _edits(route, action)
        if route.response_headers or not isinstance(action, Forward):
            yield from _own_headers(route)
        if isinstance(action, Forward) and route.name not in l4:
            if has_grpc:
                yield from _protocols(plan, route, action, VERSIONS[version])
            if action.retries is not None:
                yield from _full_endpoints(plan, route, action)
            if has_queues:
                yield from _queues(plan, route, action)


def _limits(route: Route) -> Iterator[Objection]:
    limit = route.rate_limit
    if limit is not None and format_rate(limit) is None:
        minute = max(1, round(limit.amount * 60 / limit.seconds))
        why = f"nginx counts in whole requests per second or minute; the nearest is {minute}/m"
        yield Objection(refused(why), f"{route.field}.rate_limit", Feature.RATE_LIMIT)
    if limit is not None:
        yield from key_objections(limit.key, f"{route.field}.rate_limit")
    if route.concurrency is not None:
        yield from key_objections(route.concurrency.key, f"{route.field}.concurrency")


def _retries(route: Route, action: Forward) -> Iterator[Objection]:
    policy, buffered = action.retries, action.buffering.request
    if policy is None:
        return
    if policy.max > (bound := max_retries(policy, buffered=buffered)):
        why = f"nginx follows ten internal redirects of a request, which allow {bound} retries here"
        yield Objection(refused(why), f"{route.field}.retries.max", Feature.RETRIES)
    if policy.all_methods and buffered and RetryCause.TIMEOUT in policy.causes:
        note = "with request buffering an endpoint that stops reading the body counts as a timeout too"
        shows = dict.fromkeys(("timeouts.idle.upload", "timeouts.idle.upload_again"), "text: the upload took")
        yield Objection(approximate(note, shows), f"{route.field}.retries", Feature.TIMEOUT_IDLE)
    if policy.statuses and not {502, 504} <= set(policy.statuses):
        note = (
            "nginx replaces the body of an endpoint's 502 or 504 when other statuses are retried; list 502 and 504 "
            "as well to keep theirs"
        )
        own_body = {"route.retries.own_502": ("text", "status 502")}
        yield Objection(approximate(note, own_body), f"{route.field}.retries", Feature.RETRIES)


def _full_endpoints(plan: Plan, route: Route, action: Forward) -> Iterator[Objection]:
    pools = [plan.pool(target.pool) for target in action.targets]
    limited = any(pool.max_per_endpoint is not None and len(pool.endpoints) > 1 for pool in pools)
    if action.retries is not None and limited:
        shows = {"pool.connections.max_per_endpoint.tries": "text: at a time"}
        note = "a retry may go to an endpoint that has reached its limit"
        yield Objection(approximate(note, shows), f"{route.field}.retries", Feature.MAX_PER_ENDPOINT)


def _queues(plan: Plan, route: Route, action: Forward) -> Iterator[Objection]:
    pools = [plan.pool(t.pool) for t in action.targets if t.weight]
    conflicts = (
        (action.retries is not None, f"retries of {route.name}: it follows ten internal redirects of a request"),
        (len(pools) > 1, f"the split of {route.name}: a request waits for one pool"),
        (any(map(has_separate_backups, pools)), "backups and this balance: they need a pool of their own"),
    )
    if any(map(has_queue, pools)) and not action.buffering.request:
        note = (
            "nginx reads the whole body of a request that may have to wait before it forwards the request, although "
            "the route streams (buffering.request: true asks for that)"
        )
        shows = {"pool.connections.queue.streamed": "text: before its end"}
        yield Objection(approximate(note, shows), f"{route.field}.buffering", Feature.QUEUE)
    for pool in pools:
        for conflict, what in conflicts:
            if has_queue(pool) and conflict:
                why = f"nginx cannot combine a queue with {what}"
                yield Objection(refused(why), f"{pool.field}.connections.queue", Feature.QUEUE)
                break


def _protocols(plan: Plan, route: Route, action: Forward, version: Version) -> Iterator[Objection]:
    """What the gRPC module does not support."""
    for mirror in action.mirrors:
        if upstream_module(plan.pool(mirror.pool), version) == GRPC:
            yield Objection(refused(f"{_GRPC_MODULE} decodes the target of a mirror"), mirror.field, Feature.MIRROR)
    if any(upstream_module(plan.pool(t.pool), version) == GRPC for t in action.targets if t.weight):
        if action.rewrite is not None and (action.rewrite.path is not None or action.rewrite.prefix is not None):
            yield Objection(refused(f"{_GRPC_MODULE} cannot send a rewritten target"), f"{route.field}.rewrite")
        if action.retries is not None:
            why = f"{_GRPC_MODULE} keeps no body for a retry"
            yield Objection(refused(why), f"{route.field}.retries", Feature.RETRIES)


def _edits(route: Route, action: Forward) -> Iterator[Objection]:
    for name, _ in (*route.request_headers.add, *[pair for x in action.targets for pair in x.request_headers.add]):
        if not is_readable(name):
            why = f"nginx cannot read the header {name}, so it cannot add to it"
            yield Objection(refused(why), f"{route.field}.request_headers")
    # Where one target of a split edits a header, the others get the client's value, which nginx must read.
    for target in action.targets if len(action.targets) > 1 else ():
        for name in dict.fromkeys(_edited_headers(target.request_headers)):
            if not is_readable(name):
                why = f"nginx cannot read the header {name}, so it cannot keep it for other targets"
                yield Objection(refused(why), f"{target.field}.request_headers")


def _timeouts(timeouts: Timeouts, field: str) -> Objection:
    response, idle = _seconds(timeouts.response), _seconds(timeouts.idle)
    note = (
        f"nginx has one timer for an endpoint's response head and for silence in its body: both end after {response} "
        f"(response), while {idle} (idle) applies to tunnels and to sending; set both to the same time to honour both"
    )
    shows = {"timeouts.idle.body": ("cut", "time")}
    return Objection(approximate(note, shows), f"{field}.timeouts", Feature.TIMEOUT_IDLE)


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g} s" if milliseconds else "no limit of time"


def _own_headers(route: Route) -> Iterator[Objection]:
    own = _OWN_HEADERS + (_OWN_HEADERS_OF_REDIRECTS if isinstance(route.action, Redirect) else ())
    found = dict.fromkeys(_edited_headers(route.response_headers), f"{route.field}.response_headers")
    if isinstance(route.action, Respond):
        found |= {name: f"{route.field}.respond.headers" for name, _ in route.action.headers}
    for name, field in found.items():
        if name in own:
            yield Objection(refused(f"nginx sets {name} itself and has no directive to change it"), field)


def _edited_headers(edits: HeaderEdits) -> Iterator[str]:
    yield from (name for name, _ in (*edits.set, *edits.add))
    yield from edits.remove
