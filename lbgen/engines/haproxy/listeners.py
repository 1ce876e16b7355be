"""Listeners: the `bind` lines of all, and the frontend of an L7 listener."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy import cors, paths
from lbgen.engines.haproxy.actions import action_backend, answer_in_place
from lbgen.engines.haproxy.backend_selection import (
    TARGET,
    choices,
    draw_statements,
    sticky_statements,
    target_edits,
    use_backend_statements,
)
from lbgen.engines.haproxy.buffers import WHOLE_BODY
from lbgen.engines.haproxy.headers import CLAIMS, dropped_names, header_statements
from lbgen.engines.haproxy.limits import Limits
from lbgen.engines.haproxy.matching import ROUTE, ROUTING, route_requests
from lbgen.engines.haproxy.mirrors import mirror_frontends, mirror_statements
from lbgen.engines.haproxy.per_route import PerRoute
from lbgen.engines.haproxy.rewrites import rewrite_statements
from lbgen.engines.haproxy.statements import Section, Statement, found, statement, words
from lbgen.engines.haproxy.timeouts import LONGEST, duration
from lbgen.engines.haproxy.tls import reject_unknown_names, tls_options
from lbgen.engines.haproxy.view import Bind, Forwarded, Frontend, Paths
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Mode, PoolProtocol, Redirect
from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from lbgen.engines.haproxy.maps import Maps
    from lbgen.engines.haproxy.matching import Routing
    from lbgen.engines.haproxy.statements import Word
    from lbgen.engines.haproxy.upstreams import Backends
    from lbgen.engines.haproxy.view import ActionBackend, Mirror
    from lbgen.plan.model import Listener, Plan

_OF_SPLITS = "; txn.target is the chosen share of a split"


def bind(listener: Listener, maps: Maps) -> Bind:
    """The address, and what the listener speaks there: PROXY, TLS, HTTP versions."""
    options: list[str | Word] = []
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    if listener.address == "::":  # a socket for each: one for both would see IPv4 clients as ::ffff:192.0.2.1
        address = f"0.0.0.0:{listener.port},{address}"
        options.append("v6only")
    if listener.proxy_protocol:
        options.append("accept-proxy")
    rejects = []
    if listener.tls is not None and not listener.tls.passthrough:
        options += tls_options(listener, listener.tls)
        rejects.append(reject_unknown_names(listener.tls, f"{listener.field}.tls", maps))
    if listener.mode is Mode.L7 and not listener.http2:
        options.append("proto h1")
    return Bind(
        name=Atom(listener.name),
        origin=Atom(listener.field),
        address=Atom(address),
        port=listener.port,
        options=words(*options),
        max_connections=listener.max_connections,
        may_map=listener.proxy_protocol,
        rejects=tuple(rejects),
    )


def frontend(
    listener: Listener, plan: Plan, backends: Backends, maps: Maps
) -> tuple[Frontend, list[ActionBackend], list[Mirror]]:
    """The frontend of an L7 listener, backends for its routes without a pool, and frontends for copies of requests.

    Adds the listener's map files to `maps`, and the pools of its routes to `backends`.
    """
    routing = route_requests(listener, plan, maps, _redirects_to_own_host(listener, plan))
    keys = routing.route_keys
    routes = [(name, plan.route(key.route)) for name, key in keys.items()]
    forwards = {name: route.action for name, route in routes if isinstance(route.action, Forward)}
    forwarding = [keys[name] for name in forwards]
    origins = {name: key.origin for name, key in keys.items()}
    per_route = PerRoute(maps, ROUTE, frozenset(keys), None, origins)
    # A response may be HAProxy's own, to a request that has no route.
    per_response = PerRoute(maps, ROUTE, frozenset(keys), found(ROUTE), origins)
    chosen = list(choices(keys, plan))
    drawn = [choice for choice in chosen if choice.drawn]
    targets = {choice.key: choice.target.field for choice in drawn}
    per_target = PerRoute(maps, TARGET, frozenset(targets), found(TARGET), targets)
    limits = Limits(listener, routes, per_route, maps)
    held = [name for name, action in forwards.items() if action.buffering.request]
    wait = statement(f"http-request wait-for-body time {LONGEST} at-least {WHOLE_BODY}")
    answering = [key for name, key in keys.items() if name not in forwards]
    answers = answer_in_place(answering, plan, listener, per_route)
    actions = {} if answers is not None else {key.name: action_backend(key, plan, listener) for key in answering}
    names = {choice.key: backends.for_choice(choice, plan) for choice in chosen}
    names |= {name: backend.name.text for name, backend in actions.items()}
    requests = [(key.name, plan.route(key.route).request_headers) for key in forwarding]
    responses = [(name, route.response_headers) for name, route in routes if route.response_headers]
    pools = [plan.pool(target.pool) for action in forwards.values() for target in action.targets]
    admission = [*limits.after_routing(), *([per_route.restrict(wait, held, "held")] if held else [])]
    edits = [
        *header_statements("http-request", requests, per_route, "request"),
        *header_statements("http-request", target_edits(chosen, drawn=False), per_route, "target"),
        *([*draw_statements(drawn, per_route), *sticky_statements(drawn, plan, per_route)] if drawn else []),
        *header_statements("http-request", target_edits(chosen, drawn=True), per_target, "share"),
        *rewrite_statements(forwarding, plan, per_route),
        *cors.response_statements(cors.policies(routes), per_response),
        *header_statements("http-after-response", responses, per_response, "response"),
        *(answers or ()),
        *mirror_statements(listener, forwards, plan, backends, per_route),
    ]
    use_backend = use_backend_statements(names, chosen, per_route, per_target) if names else []
    shares_log = listener.logs and sum(each.logs for each in plan.listeners if each.mode is Mode.L7) > 1
    is_single = _takes_all(routing) and not shares_log and not _names_route([*admission, *edits, *use_backend])
    return (
        Frontend(
            bind=bind(listener, maps),
            http2=listener.http2,
            logs=listener.logs,
            only_route=Atom(next(iter(keys.values())).route) if is_single else None,
            header_timeout=Atom(duration(listener.timeouts.header)),
            body_timeout=Atom(duration(listener.timeouts.body)),
            keepalive_timeout=Atom(duration(listener.timeouts.keepalive)),
            forwarded=_forwarded(listener, maps),
            paths=_paths(listener),
            dropped=Literal(dropped_names(listener)),
            keeps_trailers=any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools),
            guards=_section("Limits of the request head, and the access list of the listener", limits.before_routing()),
            routing=_section(ROUTING, [] if is_single else routing.statements),
            admission=_section("Limits and policies of routes", admission),
            measures_bodies=any(route.max_body is not None for _, route in routes),
            forwards=bool(forwards),
            edits=_section(f"What the route changes or answers, and its backend{_OF_SPLITS if drawn else ''}", edits),
            use_backend=tuple(use_backend),
        ),
        list(actions.values()),
        mirror_frontends(listener, forwards, plan, backends),
    )


def _section(title: str, statements: list[Statement]) -> Section:
    return Section(Atom(title), tuple(statements))


def _takes_all(routing: Routing) -> bool:
    """Whether the listener has one route that takes every request."""
    return len(routing.statements) == len(routing.route_keys) == 1 and not routing.statements[0].acls


def _names_route(statements: list[Statement]) -> bool:
    acls = (word for each in statements for acl in each.acls for word in acl.words)
    arguments = (word for each in statements for word in each.arguments)
    return any(ROUTE in word.text for word in (*acls, *arguments) if isinstance(word, Atom | Literal))


def _redirects_to_own_host(listener: Listener, plan: Plan) -> bool:
    routes = {rule.route for table in listener.hosts for rule in table.rules}
    actions = (plan.route(name).action for name in routes)
    return any(isinstance(action, Redirect) and action.host is None for action in actions)


def _forwarded(listener: Listener, maps: Maps) -> Forwarded:
    drops = None
    if listener.trusted_proxies:
        stranger = ~maps.is_within("src", listener.trusted_proxies, "trusted", listener.field)
        drops = statement("http-request del-header", Literal(f"^{CLAIMS}$"), "-m reg", when=[stranger])
    return Forwarded(
        drops=drops,
        sets=listener.forwarded_headers,
        request_id=listener.request_id,
        scheme=Atom(listener.scheme),
        port=listener.client_port,
    )


def _paths(listener: Listener) -> Paths:
    mode = listener.paths.mode
    refused = Literal(paths.refused_regex(listener.paths))
    return Paths(
        refused_first=Literal(paths.BROKEN) if mode is PathsMode.NORMALIZE else refused,
        refused=refused,
        normalizes=mode is PathsMode.NORMALIZE,
        is_verbatim=mode is PathsMode.VERBATIM,
    )
