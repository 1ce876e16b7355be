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
from lbgen.engines.haproxy.bodies import may_expire_while_waiting, wait_statements
from lbgen.engines.haproxy.headers import CLAIMS, dropped_names, header_statements, is_claim, plain_head, tested_names
from lbgen.engines.haproxy.limits import Limits
from lbgen.engines.haproxy.matching import ROUTE, route_requests
from lbgen.engines.haproxy.mirrors import mirror_statements
from lbgen.engines.haproxy.per_route import PerRoute
from lbgen.engines.haproxy.rewrites import rewrite_statements
from lbgen.engines.haproxy.statements import Section, Statement, found, statement, words
from lbgen.engines.haproxy.timeouts import duration, filter_times, late_statements
from lbgen.engines.haproxy.tls import tls_options
from lbgen.engines.haproxy.view import Bind, Forwarded, Frontend, Paths, Plain
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Mode, Redirect
from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from lbgen.engines.api import RenderedFile
    from lbgen.engines.haproxy.maps import Maps
    from lbgen.engines.haproxy.matching import Routing
    from lbgen.engines.haproxy.statements import Word
    from lbgen.engines.haproxy.upstreams import Backends
    from lbgen.engines.haproxy.view import ActionBackend
    from lbgen.plan.model import Listener, Plan

_OF_SPLITS = "; txn.target is the chosen share of a split"


def bind(listener: Listener) -> Bind:
    """The address, and what the listener speaks there: PROXY, TLS, HTTP versions."""
    options: list[str | Word] = []
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    if listener.address == "::":  # a socket for each: one for both would see IPv4 clients as ::ffff:192.0.2.1
        address = f"0.0.0.0:{listener.port},{address}"
        options.append("v6only")
    if listener.proxy_protocol:
        options.append("accept-proxy")
    if listener.tls is not None and not listener.tls.passthrough:
        options += tls_options(listener, listener.tls)
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
    )


def frontend(
    listener: Listener, plan: Plan, backends: Backends, maps: Maps
) -> tuple[Frontend, list[ActionBackend], list[RenderedFile]]:
    """The frontend of an L7 listener, backends for its routes without a pool, and its Lua files.

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
    times = {name: text for name, action in forwards.items() if (text := filter_times(action))}
    time_statements = per_route.with_values(statement("http-request set-var-fmt(txn.times)"), times, "times")
    mirrors = mirror_statements(routes, plan, backends, per_route)
    answering = [key for name, key in keys.items() if name not in forwards]
    answers = answer_in_place(answering, plan, listener, per_route)
    actions = {} if answers is not None else {key.name: action_backend(key, plan, listener) for key in answering}
    names = {choice.key: backends.for_choice(choice, plan) for choice in chosen}
    names |= {name: backend.name.text for name, backend in actions.items()}
    requests = [(key.name, plan.route(key.route).request_headers) for key in forwarding]
    responses = [(name, route.response_headers) for name, route in routes if route.response_headers]
    with_cors = [name for name, route in routes if route.cors]
    edits = [
        *header_statements("http-request", requests, per_route, "request"),
        *header_statements("http-request", target_edits(chosen, drawn=False), per_route, "target"),
        *([*draw_statements(drawn, per_route, maps), *sticky_statements(drawn, plan, maps)] if drawn else []),
        *header_statements("http-request", target_edits(chosen, drawn=True), per_target, "share"),
        *rewrite_statements(forwarding, plan, per_route),
        *late_statements(routes, per_response),
        *cors.response_statements(with_cors, per_response),
        *header_statements("http-after-response", responses, per_response, "response"),
    ]
    drops_underscores = not listener.underscores
    tested = tested_names(listener, plan)
    tests = drops_underscores and any("_" in name for name in tested)
    dropped = dropped_names(listener, drops_underscores and not tests)
    policies = cors.policies_file(listener.name, routes)
    plain = _plain(listener)
    guards = limits.before_routing()
    return (
        Frontend(
            bind=bind(listener),
            http2=listener.http2,
            logs=listener.logs,
            only_route=_only_route(routing) if plain is None and not guards else None,
            guarantees=listener.guarantees,
            plain=plain,
            dropped=Atom(dropped) if dropped else None,
            header_timeout=Atom(duration(listener.timeouts.header)),
            body_timeout=Atom(duration(listener.timeouts.body)),
            keepalive_timeout=Atom(duration(listener.timeouts.keepalive)),
            forwarded=_forwarded(listener, maps, any(map(is_claim, tested))),
            paths=_paths(listener),
            drops_underscores=drops_underscores,
            tests_underscores=tests,
            guards=_section("Limits of the request head, and the access list of the listener", guards),
            routing=_section(routing.title, routing.statements),
            admission=_section(
                "Limits and policies of routes",
                [*limits.after_routing(), *time_statements, *mirrors, *wait_statements(routes, per_route)],
            ),
            measures_bodies=any(route.max_body is not None for _, route in routes),
            has_mirrors=bool(mirrors),
            has_times=bool(times),
            may_expire=may_expire_while_waiting(routes),
            compresses=any(route.compression for _, route in routes),
            forwards=bool(forwards),
            edits=_section(
                f"What the route changes or answers, and its backend{_OF_SPLITS if drawn else ''}",
                [*edits, *(answers or ())],
            ),
            use_backend=tuple(use_backend_statements(names, chosen, per_route, per_target) if names else ()),
        ),
        list(actions.values()),
        [*routing.lua, *([policies] if policies is not None else [])],
    )


def _section(title: str, statements: list[Statement]) -> Section:
    return Section(Atom(title), tuple(statements))


def _only_route(routing: Routing) -> Atom | None:
    """The route, where the listener has one that takes every request."""
    takes_all = len(routing.statements) == len(routing.route_keys) == 1 and not routing.statements[0].acls
    return Atom(next(iter(routing.route_keys.values())).route) if takes_all else None


def _redirects_to_own_host(listener: Listener, plan: Plan) -> bool:
    routes = {rule.route for table in listener.hosts for rule in table.rules}
    actions = (plan.route(name).action for name in routes)
    return any(isinstance(action, Redirect) and action.host is None for action in actions)


def _forwarded(listener: Listener, maps: Maps, reads_claims: bool) -> Forwarded:
    drops = []
    if listener.trusted_proxies or reads_claims:
        drop = statement("http-request del-header", Literal(CLAIMS), "-m reg")
        inside = [~maps.is_within("src", nets, "trusted", listener.field)] if (nets := listener.trusted_proxies) else []
        drops.append(drop.extend(acls=inside, origin=listener.field))
    return Forwarded(
        drops=tuple(drops),
        has_trusted=bool(listener.trusted_proxies),
        sets=listener.forwarded_headers,
        request_id=listener.request_id,
        scheme=Atom(listener.scheme),
        port=listener.client_port,
    )


def _plain(listener: Listener) -> Plain | None:
    kept = listener.guarantees
    if not (kept.paths or kept.framing or kept.connection_options):
        return None
    return Plain(target=Literal(paths.PLAIN), head=Literal(plain_head(listener)))


def _paths(listener: Listener) -> Paths:
    pattern = paths.refused_regex(listener.paths)
    mode = listener.paths.mode
    return Paths(
        refused=Literal(pattern),
        is_strict=pattern == paths.STRICT,
        normalizes=mode is PathsMode.NORMALIZE,
        is_verbatim=mode is PathsMode.VERBATIM,
    )
