"""Objections to routes: limits, retries, timeouts, protocols of pools, edits of headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, approximate, habit, refused
from lbgen.engines.nginx.limits import format_rate
from lbgen.engines.nginx.pool_objections import key_objections
from lbgen.engines.nginx.request_values import is_readable
from lbgen.engines.nginx.retries import STATUSES
from lbgen.engines.nginx.support import VERSIONS
from lbgen.engines.nginx.upstream_protocols import GRPC, upstream_module
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, PoolProtocol, Redirect, Respond
from lbgen.plan.policy import RetryCause

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.nginx.support import Version
    from lbgen.plan.model import HeaderEdits, Plan, Route, Timeouts
    from lbgen.plan.policy import Retries

_OWN_HEADERS = ("server", "date")
_OWN_HEADERS_OF_REDIRECTS = ("content-type", "location")
_GRPC_MODULE = "nginx's gRPC module, which implements HTTP/2 to endpoints here,"


def route_objections(plan: Plan, version: str) -> Iterator[Objection]:
    """The objections to all routes, in the order of the topology."""
    l4 = {rule.route for x in plan.listeners for rule in x.l4_rules}
    has_grpc = any(upstream_module(pool, VERSIONS[version]) == GRPC for pool in plan.pools)
    for route in plan.routes:
        if route.rate_limit is not None or route.concurrency is not None:
            yield from _limits(route)
        action = route.action
        if isinstance(action, Forward):
            if action.retries is not None:
                yield from _retries(route, action.retries)
            if action.timeouts.response != action.timeouts.idle and route.name not in l4:
                yield _timeouts(action.timeouts, route.field)
            yield from _edits(route, action)
        if route.response_headers or not isinstance(action, Forward):
            yield from _own_headers(route)
        if isinstance(action, Forward) and route.name not in l4:
            if any(plan.pool(t.pool).protocol is PoolProtocol.HTTP2 for t in action.targets):
                note = "nginx forwards no upgrades to HTTP/2 endpoints: they get the handshake of a WebSocket as a GET"
                yield Objection(habit(note), f"{route.field}.forward", Feature.WEBSOCKET)
            if has_grpc:
                yield from _protocols(plan, route, action, VERSIONS[version])


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


def _retries(route: Route, policy: Retries) -> Iterator[Objection]:
    if others := [str(status) for status in policy.statuses if status not in STATUSES]:
        able = ", ".join(map(str, sorted(STATUSES)))
        why = f"nginx retries the statuses {able}, not {', '.join(others)}"
        yield Objection(refused(why), f"{route.field}.retries.on", Feature.RETRIES)


def _protocols(plan: Plan, route: Route, action: Forward, version: Version) -> Iterator[Objection]:
    """What the gRPC module does not support."""
    for mirror in action.mirrors:
        if upstream_module(plan.pool(mirror.pool), version) == GRPC:
            yield Objection(refused(f"{_GRPC_MODULE} decodes the target of a mirror"), mirror.field, Feature.MIRROR)
    if any(upstream_module(plan.pool(t.pool), version) == GRPC for t in action.targets if t.weight):
        if action.rewrite is not None and (action.rewrite.path is not None or action.rewrite.prefix is not None):
            yield Objection(refused(f"{_GRPC_MODULE} cannot send a rewritten target"), f"{route.field}.rewrite")
        if action.retries is not None and (
            action.retries.causes - {RetryCause.CONNECT_FAILURE} or action.retries.statuses
        ):
            why = f"{_GRPC_MODULE} keeps no body for a retry; connect_failure needs none"
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
    only = "nginx has one timer for an endpoint's response head and for silence in its body or a tunnel"
    if timeouts.idle and (timeouts.idle < timeouts.response or not timeouts.response):
        note = (
            f"{only}: silence ends after {response} (response), the longer one, not {idle}; set both to the same time"
        )
        shows = {"timeouts.idle.body": ("cut", "time")}
        return Objection(approximate(note, shows), f"{field}.timeouts.idle", Feature.TIMEOUT_IDLE)
    note = f"{only}: the head may take {idle} (idle), the longer one, not {response}"
    late = {"timeouts.response.longer": "time"}
    return Objection(habit(note, late), f"{field}.timeouts.response", Feature.TIMEOUT_RESPONSE)


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
