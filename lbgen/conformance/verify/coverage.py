"""The fields of a topology, and those that cases try: what is left is the report's list `not tried:`.

Fields are read off the plan: everything that has a value, a rendered default included. A case tries the fields that its
clause is about (`_TRIED`), of the listener, the route and the pools that it is for, and those that it names itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from lbgen.conformance.judge import behaviour_of
from lbgen.conformance.pages import shown_pages
from lbgen.conformance.runner import CaseState, Result
from lbgen.conformance.verify.cases import reached_fields
from lbgen.plan.auth import BasicAuth, ForwardAuth, JwtAuth
from lbgen.plan.error_pages import ErrorPage, page_for
from lbgen.plan.model import Forward, Listener, Mode, Plan, Pool, Protocol, Redirect, Respond, Route
from lbgen.plan.simulate import simulate
from lbgen.plan.tls import Certificate, File
from lbgen.plan.values import Template

if TYPE_CHECKING:
    from lbgen.conformance.case import Case

# Names of a plan that are no fields of a topology, or that have a line of their own below.
_NO_FIELDS = frozenset(
    {
        *("name", "index", "field", "names", "hosts", "l4_rules", "mode", "protocol_of", "metrics", "is_ip"),
        *("address_written", "public_port", "cookie_value", "written", "addresses", "stand_ins", "leads_to"),
    }
)
_MADE = {("Listener", "protocol"), ("Endpoint", "host"), ("ForwardAuth", "host")}  # with others, and of others
_OF_L4 = {  # the only fields that layer 4 has
    Listener: frozenset({"address", "port", "tls", "proxy_protocol", "max_connections", "access"}),
    Route: frozenset({"action", "access"}),
    Forward: frozenset({"targets", "timeouts"}),
    Pool: frozenset({"balance", "endpoints", "active", "passive", "max_per_endpoint", "tls", "proxy_protocol"}),
}
_WORDS = {  # what the topology calls them
    "underscores": "headers_with_underscores",
    "client_header": "client_ip.header",
    "real_ip": "forwarded_headers.real_ip",
    "forwarded": "forwarded_headers.forwarded",
    "ciphers": "policy",
    "client_ca": "client.ca",
    "client_required": "client.verify",
    "active": "health.active",
    "passive": "health.passive",
    "statuses": "expect",
    "keepalive_idle": "connections.keepalive_idle",
    "max_per_endpoint": "connections.max_per_endpoint",
    "queue": "connections.queue",
    "hash_key": "balance.hash",
    "targets": "forward",
    "mirrors": "mirror",
    "causes": "on",
    "all_methods": "methods",
    "header": "client_header",
    "body": "client_body",
}
_OF_TIMEOUTS = ("header", "body")  # those two words are of a listener's timeouts only
_ALWAYS_WRITTEN = frozenset({"forwarded_headers", "request_id", "verify"})  # False is a value of these
_MOST = 10  # places that a line of the list names

# By the start of a clause: the fields that its cases try. {l} the listener, {r} the route, {p} each of its pools.
_TRIED: dict[str, tuple[str, ...]] = {
    "2.order": ("{r}.priority",),
    "2.rule": ("{r}.priority",),
    "3.paths": ("{l}.paths",),
    "4.compression": ("{r}.compression",),
    "4.cors": ("{r}.cors",),
    "4.edits": ("{r}.request_headers.remove", "{r}.response_headers.remove"),
    "4.grpc": ("{p}.protocol", "{l}.http2"),
    "4.http2": ("{l}.http2",),
    "4.mirror": ("{r}.mirror",),
    "4.split": ("{r}.forward",),
    "4.trusted": ("{l}.trusted_proxies", "{l}.client_ip"),
    "4.underscores": ("{l}.headers_with_underscores",),
    "4.upload": ("{r}.buffering.request",),
    "5.access": ("{l}.access", "{r}.access"),
    "5.auth": ("{r}.auth.basic", "{r}.auth.jwt"),
    "5.auth-forward": ("{r}.auth.forward",),
    "5.close": ("{r}.retries.methods", "{r}.retries.on"),
    "5.concurrency": ("{r}.concurrency",),
    "5.connections": ("{l}.max_connections",),
    "5.limits.headers": ("{l}.limits.headers",),
    "5.limits.target": ("{l}.limits.target",),
    "5.max_body": ("{r}.max_body",),
    "5.rate": ("{r}.rate_limit",),
    "5.reset": ("{r}.retries.methods", "{r}.retries.on"),
    "5.tls.alpn": ("{l}.http2",),
    "5.tls.client": ("{l}.tls.client",),
    "5.tls.curves": ("{l}.tls.curves",),
    "5.tls.endpoint": ("{p}.tls.ca", "{p}.tls.server_name", "{p}.tls.verify"),
    "5.tls.policy": ("{l}.tls.policy",),
    "5.tls.sni": ("{l}.tls.certificates", "{l}.tls.acme"),
    "5.tls.version": ("{l}.tls.min_version",),
    "6.active": ("{p}.health.active",),
    "6.backup": ("{p}.endpoints",),
    "6.client.body": ("{l}.timeouts.client_body",),
    "6.client.header": ("{l}.timeouts.client_header",),
    "6.client.keepalive": ("{l}.timeouts.keepalive",),
    "6.connect": ("{r}.timeouts.connect",),
    "6.full": ("{p}.connections.max_per_endpoint",),
    "6.idle": ("{r}.timeouts.idle",),
    "6.passive": ("{p}.health.passive",),
    "6.queue": ("{p}.connections.queue",),
    "6.request": ("{r}.timeouts.request",),
    "6.response": ("{r}.timeouts.response",),
    "6.retries": ("{r}.retries.max", "{r}.retries.on", "{r}.retries.methods"),
    "6.retries.timeout": ("{r}.timeouts.response",),
    "6.sticky": ("{p}.sticky",),
    "7.bytes": ("{l}.access", "{l}.tls", "{r}.access", "{r}.forward", "{r}.hosts", "{r}.sources", "{p}.tls"),
    "7.connect": ("{r}.timeouts.connect",),
    "7.datagrams": ("{l}.access", "{r}.access", "{r}.forward", "{r}.sources"),
    "7.idle": ("{r}.timeouts.idle",),
    "10.log": ("{l}.access_log",),
}
_ANY = ("{l}.address", "{l}.port", "{l}.proxy_protocol")
_FORWARDED = (  # any request that reaches an endpoint is compared with what the oracle says of it
    *("{l}.forwarded_headers", "{l}.request_id", "{p}.protocol", "{p}.tls.certificate"),
    *("{p}.tls.ca", "{p}.tls.server_name", "{p}.tls.verify", "{p}.sticky.cookie", "{r}.rewrite"),
    *("{r}.request_headers.set", "{r}.request_headers.add", "{r}.response_headers.set", "{r}.response_headers.add"),
)
_ANSWERED = ("{r}.redirect", "{r}.respond", "{r}.response_headers.set", "{r}.response_headers.add")
_DIRECT = "engines.nftables.forwarding"


def topology_fields(plan: Plan) -> dict[str, None]:
    """Every field of the topology that has a value, in order; routes by their names."""
    found = [
        *(each for listener in plan.listeners for each in _of_listener(listener)),
        *(each for pool in plan.pools for each in _of_pool(plan, pool)),
        *(each for route in plan.routes for each in _of_route(plan, route)),
    ]
    for feature in ("route.priority", "metrics", "metrics.l4", "engines.verbatim", "engines.forwarding.direct"):
        found += [named(plan, use.field) for use in plan.uses_of(feature)]
    return dict.fromkeys(found)


def named(plan: Plan, field: str) -> str:
    """`routes[3].match[0]` with the route's name in place of its number."""
    if not field.startswith("routes["):
        return field
    number, mark, rest = field.removeprefix("routes[").partition("]")
    place = bisect_left(plan.routes, int(number), key=attrgetter("index"))
    found = plan.routes[place : place + 1]
    name = found[0].name if found and found[0].index == int(number) else number
    return f"routes[{name}{mark}{rest}"


def _of_listener(listener: Listener) -> Iterator[str]:
    yield from _leaves(listener, listener.field, l4=listener.mode is Mode.L4)
    if listener.tls is not None and listener.tls.passthrough:
        yield f"{listener.field}.tls.mode"


def _of_pool(plan: Plan, pool: Pool) -> Iterator[str]:
    l4 = pool.name in {name for route in _l4_routes(plan) for name in _pools(plan.route(route))}
    if pool.name in {name for route in plan.routes for name in (*_pools(route), *_mirrors(route), *_asked(route))}:
        yield from _leaves(pool, pool.field, l4=l4)


def _of_route(plan: Plan, route: Route) -> Iterator[str]:
    place, l4 = named(plan, route.field), route.name in _l4_routes(plan)
    rules = [x for each in plan.listeners for table in each.hosts for x in table.rules if x.route == route.name]
    l4_rules = [x for each in plan.listeners for x in each.l4_rules if x.route == route.name]
    if any(rule.host is not None for rule in rules) or any(rule.sni is not None for rule in l4_rules):
        yield f"{place}.hosts"
    if any(rule.sources for rule in l4_rules):
        yield f"{place}.sources"
    for rule in rules:
        at = named(plan, rule.field)
        if not rule.match.path.covers_all:
            yield f"{at}.path"
        yield from (f"{at}.{each.field}" for each in rule.match.conditions)
    datagrams = any(
        each.protocol is Protocol.UDP for each in plan.listeners for x in each.l4_rules if x.route == route.name
    )
    for field in _leaves(route, place, l4=l4):
        if not (datagrams and field.endswith(".timeouts.connect")):  # nothing is connected
            yield field


def _leaves(value: Any, place: str, *, l4: bool) -> Iterator[str]:  # noqa: ANN401  # any part of a plan
    """The fields below `place` that have a value."""
    if isinstance(value, File | Template):
        yield place
    elif isinstance(value, Struct):
        yield from _of_struct(value, place, l4=l4)
    elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{place}[{number}]", l4=l4)
    elif isinstance(value, tuple) and value and isinstance(value[0], tuple) and isinstance(value[0][0], str):
        yield from (f"{place}.{name}" for name, _ in value)
    elif value not in (None, False, 0, "", ()) or place.rpartition(".")[2] in _ALWAYS_WRITTEN:
        yield place


def _of_struct(value: Struct, place: str, *, l4: bool) -> Iterator[str]:
    kind = type(value)
    if kind is Redirect or kind is Respond:
        yield f"{place}.{kind.__name__.lower()}"
        return
    if isinstance(value, BasicAuth):
        yield f"{place}.basic"
        return
    if isinstance(value, ForwardAuth):
        place = f"{place}.forward"
    if isinstance(value, JwtAuth):  # keys at a URL are replaced
        yield f"{place}.{'jwt' if value.file_keys else 'jwks_by_url'}"
        return
    if kind.__name__ in ("Origin", "Key"):
        yield place
        return
    if isinstance(value, Certificate) and value.cert.issued:
        yield value.field
        return
    if isinstance(value, ErrorPage):
        yield value.field if value.field.startswith("error_pages.") else f"{place.rpartition('[')[0]}.{value.key}"
        return
    for name in kind.__struct_fields__:
        if name in _NO_FIELDS or (l4 and name not in _OF_L4.get(kind, (name,))):
            continue
        each = getattr(value, name)
        if (kind.__name__, name) in _MADE or (name == "client_required" and getattr(value, "client_ca", None) is None):
            continue
        if kind.__name__ == "Endpoint" and name == "port":
            yield f"{place}.address"
        elif kind.__name__ == "Timeouts" and l4 and name not in ("connect", "idle"):
            continue
        elif name == "action":
            yield from _leaves(each, place, l4=l4)
        elif name == "weight":
            if each != 1:
                yield f"{place}.weight"
        else:
            yield from _leaves(each, f"{place}.{_word(kind.__name__, name)}", l4=l4)


def _word(kind: str, name: str) -> str:
    if name in _OF_TIMEOUTS and kind != "ClientTimeouts":
        return name
    if name == "keepalive" and kind == "Pool":
        return "connections.keepalive"
    if name == "statuses" and kind == "Retries":
        return "on"
    return _WORDS.get(name, name)


def tried_fields(plan: Plan, case: Case) -> Iterator[str]:
    """The fields that a case tries, as prefixes of fields of the topology."""
    yield from case.tries_fields
    listener = plan.listener(case.request.listener)
    routes = [plan.route(name) for name in case.routes]
    words = [*_ANY, *(word for start, given in _TRIED.items() if _is_of(case.clause, start) for word in given)]
    if case.oracle:
        outcome = simulate(plan, case.request)
        yield from (named(plan, page.field) for page in shown_pages(case, outcome, behaviour_of(case)))
        routes = [plan.route(outcome.route)] if outcome.route is not None else []
        if not case.steps:
            words += _FORWARDED if outcome.upstreams else _ANSWERED
    if case.clause == "5.rate":
        pages = (page_for(plan.error_pages(listener, route), 429) for route in routes)
        yield from (named(plan, page.field) for page in pages if page is not None)
    for route in routes:
        pools = [plan.pool(case.params["pool"])] if case.params.get("pool") else [plan.pool(x) for x in _pools(route)]
        if len(pools) == 1 and (case.oracle or case.clause in ("7.bytes", "7.datagrams")):
            yield f"{named(plan, route.field)}.forward"
            yield from reached_fields(pools[0])
        for word in words:
            for at in [pool.field for pool in pools] if "{p}" in word else [""]:
                yield word.format(l=listener.field, r=named(plan, route.field), p=at)
    yield from (word.format(l=listener.field) for word in words if word.startswith("{l}"))
    if listener.mode is Mode.L4:
        yield _DIRECT


def _is_of(clause: str, start: str) -> bool:
    return clause == start or clause.startswith(start + ".")


def fields_not_tried(plan: Plan, cases: Iterable[Case], results: Iterable[Result]) -> tuple[str, ...]:
    """The fields of the topology that no case tried on any engine."""
    run = {x.case for x in results if x.state not in (CaseState.REFUSED, CaseState.SKIPPED)}
    left = topology_fields(plan)
    prefixes = {field for case in cases if case.id in run for field in tried_fields(plan, case)}
    return tuple(field for field in left if not any(part in prefixes for part in _parts(field)))


def _parts(field: str) -> Iterator[str]:
    """The field, and what it is a part of."""
    while field:
        yield field
        field = field[: max(field.rfind("."), field.rfind("["), 0)]


def list_fields(fields: Iterable[str]) -> list[str]:
    """Lines of the list: fields of one name together, `routes[*].cors: a, b and 3 more`."""
    places: dict[str, list[str]] = {}
    for field in fields:
        section, dot, rest = field.partition(".")
        if section == "listeners" or section == "pools":
            name, dot, rest = rest.partition(".")
            places.setdefault(f"{section}.*{dot}{rest}", []).append(name)
        elif section.startswith("routes["):
            places.setdefault(f"routes[*]{dot}{rest}", []).append(section[len("routes[") : -1])
        else:
            places.setdefault(field, [])
    return [
        what.replace("*", names[0], 1) if len(names) == 1 else f"{what}: {_some(names)}" if names else what
        for what, names in places.items()
    ]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more


def _l4_routes(plan: Plan) -> set[str]:
    return {rule.route for listener in plan.listeners for rule in listener.l4_rules}


def _pools(route: Route) -> list[str]:
    action = route.action
    return [target.pool for target in action.targets] if isinstance(action, Forward) else []


def _asked(route: Route) -> list[str]:
    return [route.auth.pool] if isinstance(route.auth, ForwardAuth) else []


def _mirrors(route: Route) -> list[str]:
    action = route.action
    return [mirror.pool for mirror in action.mirrors] if isinstance(action, Forward) else []
