"""Listeners: the `bind` lines of all, and the frontend of an L7 listener."""

from __future__ import annotations

from lbgen.engines.haproxy import view
from lbgen.engines.haproxy.backend_selection import choices, use_backend_statements
from lbgen.engines.haproxy.features import FEATURES
from lbgen.engines.haproxy.headers import dropped_names, forwarded
from lbgen.engines.haproxy.limits import CLIENT_VARIABLE
from lbgen.engines.haproxy.maps import Maps, PerRoute
from lbgen.engines.haproxy.matching import ROUTE, ROUTING, Routing, route_requests
from lbgen.engines.haproxy.mirrors import mirror_frontends
from lbgen.engines.haproxy.rewrites import answer_backends
from lbgen.engines.haproxy.statements import Block, Statement, Word, acl, deny, is_set, section, statement, words
from lbgen.engines.haproxy.timeouts import duration
from lbgen.engines.haproxy.tls import reject_unknown_names, tls_options
from lbgen.engines.haproxy.upstreams import Backends
from lbgen.engines.haproxy.values import makes_early_id, needs_host, needs_id
from lbgen.engines.haproxy.view import Bind, Frontend, HttpListener
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Listener, Mode, Plan, PoolProtocol
from lbgen.plan.policy import Paths, PathsMode

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
) -> tuple[Frontend, list[Block], list[Block]]:
    """The frontend of an L7 listener, backends for its routes without a pool, and frontends for copies of requests.

    Adds the listener's map files to `maps`, and the pools of its routes to `backends`.
    """
    client = _client(listener, plan)
    routes = [plan.route(name) for name in {rule.route: None for table in listener.hosts for rule in table.rules}]
    routing = route_requests(listener, plan, maps, client, needs_host(routes))
    on = _http_listener(listener, plan, backends, maps, routing, client)
    chosen = list(choices(on.keys, plan))
    names = {choice.key: backends.for_choice(choice, plan) for choice in chosen}
    answers = answer_backends(on)
    names |= {name: block.head.directive.text.removeprefix("backend ") for name, block in answers.items()}
    early_id = makes_early_id(on)
    admission = [one for each in FEATURES if each.admission for one in each.admission(on)]
    edits = [one for each in FEATURES if each.edits for one in each.edits(on)]
    use_backend = use_backend_statements(names, chosen, on)
    pools = [plan.pool(target.pool) for action in on.forwards.values() for target in action.targets]
    shares_log = listener.logs and sum(each.logs for each in plan.listeners if each.mode is Mode.L7) > 1
    is_single = _takes_all(routing) and not shares_log and not _names_route([*admission, *edits, *use_backend])
    changes = f"What the route changes or answers, and its backend{_OF_SPLITS * any(c.drawn for c in chosen)}"
    return (
        Frontend(
            bind=bind(listener, maps),
            http2=listener.http2,
            logs=listener.logs,
            only_route=Atom(next(iter(on.keys.values())).route) if is_single else None,
            header_timeout=Atom(duration(listener.timeouts.header)),
            body_timeout=Atom(duration(listener.timeouts.body)),
            keepalive_timeout=Atom(duration(listener.timeouts.keepalive)),
            forwarded=forwarded(listener, maps, client, makes_id=listener.request_id and not early_id),
            paths=path_rules(listener.paths),
            dropped=Literal(dropped_names(listener, plan.identity_headers(listener))),
            keeps_trailers=any(pool.protocol is not PoolProtocol.HTTP1 for pool in pools),
            filters=tuple(one for each in FEATURES if each.filters for one in each.filters(on)),
            guards=section(
                "Limits of the request head, and the access list of the listener",
                [one for each in FEATURES if each.guards for one in each.guards(on)],
            ),
            routing=section(ROUTING, [] if is_single else routing.statements),
            admission=section("Limits and policies of routes", admission),
            forwards=bool(on.forwards),
            makes_ids=listener.request_id and not early_id and (bool(on.forwards) or needs_id(on)),
            edits=section(changes, edits),
            use_backend=tuple(use_backend),
        ),
        list(answers.values()),
        list(mirror_frontends(on)),
    )


def _client(listener: Listener, plan: Plan) -> str:
    """A sample of the client's address."""
    names = dict.fromkeys(rule.route for table in listener.hosts for rule in table.rules)
    routes = [plan.route(name) for name in names]
    asked = listener.asks_client or any(each.by_client(listener, routes) for each in FEATURES if each.by_client)
    asked = asked or listener.real_ip or listener.client_header is not None
    return CLIENT_VARIABLE if asked and listener.trusted_proxies else "src"


def _http_listener(
    listener: Listener, plan: Plan, backends: Backends, maps: Maps, routing: Routing, client: str
) -> HttpListener:
    keys = routing.route_keys
    origins = {name: key.origin for name, key in keys.items()}
    return HttpListener(
        plan=plan,
        listener=listener,
        keys=keys,
        maps=maps,
        per_route=PerRoute(maps, ROUTE, frozenset(keys), None, origins),
        # A response may be HAProxy's own, to a request that has no route.
        per_response=PerRoute(maps, ROUTE, frozenset(keys), is_set(ROUTE), origins),
        client=client,
        copies_to=backends.name,
    )


def _takes_all(routing: Routing) -> bool:
    """Whether the listener has one route that takes every request."""
    return len(routing.statements) == len(routing.route_keys) == 1 and not routing.statements[0].acls


def _names_route(statements: list[Statement]) -> bool:
    acls = (word for each in statements for acl in each.acls for word in acl.words)
    arguments = (word for each in statements for word in each.arguments)
    return any(ROUTE in word.text for word in (*acls, *arguments) if isinstance(word, Atom | Literal))


_NO_PATH = r"\\"
STRICT = (
    rf"{_NO_PATH}|//|/\.\.?(?:/|$)|%(?:(?![0-9A-Fa-f]{{2}})|"
    r"(?i:[01][0-9A-F]|2[DEF]|3[0-9]|4[1-9A-F]|5[0-9ACF]|6[1-9A-F]|7[0-9AEF]))"
)
# What no normal form has, and what only Lua can make normal.
BROKEN = rf"{_NO_PATH}|%(?:(?![0-9A-Fa-f]{{2}})|(?i:[01][0-9A-F]|2F|5C|7F))"
_UNRESERVED = "2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]"


def refused_regex(paths: Paths) -> str:
    """A regex that finds what must not be in a path, its escapes (RFC 3986) included."""
    if paths.mode is PathsMode.VERBATIM:
        return rf"{_NO_PATH}|%(?:(?![0-9A-Fa-f]{{2}})|00)"
    if not (paths.empty_segments or paths.encoded_slash or paths.encoded_unreserved):
        return STRICT
    slash = "(?:/|%2[Ff])" if paths.encoded_slash else "/"
    dot = r"(?:\.|%2[Ee])" if paths.encoded_unreserved else r"\."
    dots = f"{slash}{dot}{{1,2}}(?:{slash}|$)"
    escapes = ["[01][0-9A-F]", "5C", "7F"]
    escapes += [] if paths.encoded_slash else ["2F"]
    escapes += [] if paths.encoded_unreserved else [_UNRESERVED]
    parts = [] if paths.empty_segments else ["//"]
    return "|".join([_NO_PATH, *parts, dots, f"%(?:(?![0-9A-Fa-f]{{2}})|(?i:{'|'.join(escapes)}))"])


def path_rules(paths: Paths) -> view.Paths:
    """What the listener refuses at once, and how it makes the others normal or sees to `..` above the root."""
    refused = Literal(refused_regex(paths))
    if paths.mode is PathsMode.NORMALIZE:
        has_any = acl(r"path -m reg '//|/\.|%'")
        normalize = statement("http-request set-path %[path,lua.normal_path]", when=[has_any])
        return view.Paths(Literal(BROKEN), (normalize, deny(400, [acl("path -m reg", refused)])))
    if paths.mode is PathsMode.VERBATIM:
        has_dots = acl(r"path -m reg '(?:/|%2[Ff])(?:\.|%2[Ee]){2}(?:/|%2[Ff]|$)'")
        return view.Paths(refused, (deny(400, [has_dots, acl("path,lua.above_root -m bool")]),))
    return view.Paths(refused, ())
