"""A plan -> the view that templates/haproxy/haproxy.cfg.j2 prints, and the map files beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.haproxy import paths
from lbgen.engines.haproxy.backend_selection import TARGET, backend_lines, choices, draw_lines, kept_lines, target_edits
from lbgen.engines.haproxy.bodies import due_while_waiting, waiting_lines
from lbgen.engines.haproxy.buffers import buffer_size, head_room
from lbgen.engines.haproxy.cors import answer_lines, policies_file
from lbgen.engines.haproxy.headers import header_lines, rewrite_lines, tail_lines
from lbgen.engines.haproxy.l4 import DENIED, Passage, passage
from lbgen.engines.haproxy.limits import Admission
from lbgen.engines.haproxy.listeners import bind_words, certificates
from lbgen.engines.haproxy.lookup import Lookup
from lbgen.engines.haproxy.matching import ROUTE, routing
from lbgen.engines.haproxy.per_route import Chooser
from lbgen.engines.haproxy.statements import Line, Maps, Section, Word, line
from lbgen.engines.haproxy.timeouts import kept, late_lines
from lbgen.engines.haproxy.upstream_servers import is_name
from lbgen.engines.haproxy.upstreams import Answer, Backend, Backends, answer, milliseconds
from lbgen.engines.text import Atom, Literal
from lbgen.plan.features import Feature
from lbgen.plan.model import Forward, Mode, PoolProtocol, Redirect
from lbgen.plan.policy import PathsMode
from lbgen.plan.request import AUTHORITY
from lbgen.records import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.api import RenderedFile
    from lbgen.engines.haproxy.matching import RouteKey
    from lbgen.plan.model import Listener, Plan, Route


@record
class Times:
    """Client-side times of a listener."""

    header: Atom
    body: Atom
    keepalive: Atom


@record
class Frontend:
    """An L7 listener. `trusted`: networks of proxies whose forwarded headers are believed; `measured`: bodies of no
    declared length are counted; `due`: the time of a request may be over while its body is waited for; `packs`: some
    route compresses; `paths`: regex of those that are refused."""

    name: Atom
    origin: Atom
    address: Atom
    port: int
    client_port: int
    bind: tuple[Word, ...]
    scheme: Atom
    http2: bool
    most: int | None
    log: bool
    times: Times
    trusted: tuple[Line, ...]
    forwarded: bool
    request_id: bool
    guard: Section
    route: Section
    admission: Section
    measured: bool
    mirrored: bool
    timed: bool
    due: bool
    packs: bool
    paths: Literal
    is_strict: bool
    normalizes: bool
    verbatim: bool
    drops_underscores: bool
    forwards: bool
    edits: tuple[Section, ...]
    answers: tuple[Section, ...]
    target: Section


@record
class View:
    """All of haproxy.cfg. `authority` is the regex of a Host line, `head` the room for a request head in KiB, `buffer`
    in bytes.

    `says_closed`: this version can answer 502 where others only close the connection. `counts`, `measures`: some route
    limits requests under way, or the size of bodies. `shares`: some Lua counts for all threads; `one_state`: then all
    Lua has to live there. `queues`: some endpoints have a limit, so requests may wait. `always_up`: some check needs a
    place where it passes. `denied`: where connections end that an
    L4 route keeps out.
    """

    name: Atom
    authority: Literal
    head: int
    buffer: int
    says_closed: bool
    counts: bool
    shares: bool
    one_state: bool
    measures: bool
    rules: tuple[Atom, ...]
    frontends: tuple[Frontend, ...]
    passages: tuple[Passage, ...]
    backends: tuple[Backend, ...]
    answers: tuple[Answer, ...]
    nameservers: tuple[Line, ...]
    resolvers: bool
    grpc: bool
    logs: bool
    mirrors: bool
    times: bool
    queues: bool
    always_up: bool
    denied: Atom | None
    admin_port: int | None


def view(plan: Plan, version: str) -> tuple[View, list[RenderedFile]]:
    """The view and the files beside it: maps, and rules for Lua."""
    backends = Backends(frozenset(_limited(plan)))
    lookup = Lookup(plan)
    lua: list[RenderedFile] = []
    maps_files: list[RenderedFile] = []
    frontends = []
    passages = []
    answers: list[Answer] = []
    for listener in plan.listeners:
        maps = Maps(listener.name)
        if (listed := certificates(listener)) is not None:
            maps_files.append(listed)
        if listener.mode is Mode.L4:
            passages.append(passage(listener, _address(listener), lookup, backends, maps))
            maps_files += maps.rendered()
            continue
        frontend, own, rules = _frontend(listener, lookup, backends, maps)
        frontends.append(frontend)
        answers += own
        lua += rules
        maps_files += maps.rendered()
    head = head_room(plan)
    found = backends.all()
    shares = any(route.rate_limit for route in plan.routes) or any(pool.passive for pool in backends.pools())
    return View(
        name=Atom(plan.name),
        authority=Literal(f"^(?:{AUTHORITY})$"),
        head=head,
        buffer=buffer_size(plan),
        says_closed=version != "2.6",
        counts=any(route.concurrency for route in plan.routes),
        shares=shares,
        one_state=shares and version == "2.6",
        measures=any(route.max_body is not None for route in plan.routes),
        rules=tuple(Atom(file.name) for file in lua),
        frontends=tuple(frontends),
        passages=tuple(passages),
        backends=found,
        answers=tuple(answers),
        nameservers=tuple(line("", "nameserver", f"dns{n}", _server(text)) for n, text in enumerate(plan.resolvers, 1)),
        resolvers=any(is_name(endpoint) for pool in backends.pools() for endpoint in pool.endpoints),
        grpc=any(pool.protocol is PoolProtocol.GRPC for pool in backends.pools()),
        times=any(frontend.timed for frontend in frontends),
        mirrors=any(frontend.mirrored for frontend in frontends),
        logs=any(listener.access_log for listener in plan.listeners),
        queues=any(pool.max_per_endpoint for pool in backends.pools()),
        always_up=backends.needs_a_check_that_passes,
        denied=Atom(DENIED)
        if any(plan.route(rule.route).access for listener in plan.listeners for rule in listener.l4_rules)
        else None,
        admin_port=plan.admin_port,
    ), [*lua, *maps_files]


def _limited(plan: Plan) -> Iterator[str]:
    """Pools that say how many idle connections are kept."""
    fields = [use.field for use in plan.uses if use.feature is Feature.KEEPALIVE and not use.default]
    return (pool.name for pool in plan.pools if any(field.startswith(f"{pool.field}.") for field in fields))


def _frontend(
    listener: Listener, lookup: Lookup, backends: Backends, maps: Maps
) -> tuple[Frontend, list[Answer], tuple[RenderedFile, ...]]:
    found = routing(listener, lookup, maps, _redirects_to_own_host(listener, lookup))
    route_keys = found.route_keys
    routes = [(key, lookup.route(route_key.route)) for key, route_key in route_keys.items()]
    origins = {key: route_key.origin for key, route_key in route_keys.items()}
    every = frozenset(route_keys)
    chooser = Chooser(maps, ROUTE, every, "", origins)
    admission = Admission(listener, routes, chooser, maps)
    timed = {key: told for key, route in routes if isinstance(route.action, Forward) and (told := kept(route.action))}
    mirrors = _mirrors(routes, lookup, backends)
    chosen = list(choices(route_keys, lookup))
    drawn = [choice for choice in chosen if choice.drawn]
    answering = [
        answer(route_key, lookup, listener) for route_key in route_keys.values() if not _forwards(route_key, lookup)
    ]
    answered = {key: name for key, (name, _) in zip(_answering(route_keys, lookup), answering, strict=True)}
    target = [*draw_lines(drawn, chooser, maps), *kept_lines(drawn, lookup, maps)] if drawn else []
    forwarding = [route_key for route_key in route_keys.values() if _forwards(route_key, lookup)]
    request = [(route_key.name, lookup.route(route_key.route).request_headers) for route_key in forwarding]
    edits = header_lines("http-request", [e for e in request if e[1]], chooser, "request")
    edits += header_lines("http-request", target_edits(chosen, drawn=False), chooser, "target")
    lots = Chooser(
        maps,
        TARGET,
        frozenset(c.key for c in drawn),
        f"{{ var({TARGET}) -m found }}",
        {c.key: c.target.field for c in drawn},
    )
    split = header_lines("http-request", target_edits(chosen, drawn=True), lots, "share")
    tail = tail_lines(route_keys.values(), chooser)
    rewrites = rewrite_lines(forwarding, lookup, chooser)
    response = [(route_key.name, lookup.route(route_key.route).response_headers) for route_key in route_keys.values()]
    answers = Chooser(maps, ROUTE, every, f"{{ var({ROUTE}) -m found }}", origins)
    pattern = paths.refused(listener.paths)
    shared = [key for key, route in routes if route.cors]
    shown = [*late_lines(routes, answers), *answer_lines(shared, answers)]
    shown += header_lines("http-after-response", [e for e in response if e[1]], answers, "response")
    use = backend_lines(chosen, answered, origins, backends, lookup, maps) if route_keys else []
    return (
        Frontend(
            name=Atom(listener.name),
            origin=Atom(listener.field),
            address=_address(listener),
            port=listener.port,
            client_port=listener.client_port,
            bind=bind_words(listener),
            scheme=Atom(listener.scheme),
            http2=listener.http2,
            most=listener.max_connections,
            log=listener.access_log,
            times=_times(listener),
            trusted=_trusted(listener),
            forwarded=listener.forwarded_headers,
            request_id=listener.request_id,
            guard=_section("Limits of a head, and who may come in", admission.early()),
            route=_section("Which route it takes", found.lines),
            admission=_section(
                "What routes let in",
                [*admission.late(), *_told(timed, mirrors, chooser), *waiting_lines(routes, chooser)],
            ),
            mirrored=bool(mirrors),
            timed=bool(timed),
            due=due_while_waiting(routes),
            measured=any(route.max_body is not None for _, route in routes),
            forwards=bool(forwarding),
            paths=Literal(pattern),
            is_strict=pattern == paths.STRICT,
            normalizes=listener.paths.mode is PathsMode.NORMALIZE,
            verbatim=listener.paths.mode is PathsMode.VERBATIM,
            drops_underscores=not listener.underscores,
            packs=any(route.compression for _, route in routes),
            edits=tuple(
                _section(title, lines)
                for title, lines in (
                    ("What routes change in requests", edits),
                    ("Where a split sends this one", target),
                    ("What targets of a split change in requests", split),
                    ("The path behind the matched prefix", tail),
                    ("Rewrites", rewrites),
                )
                if lines
            ),
            answers=(_section("What routes change in responses", shown),) if shown else (),
            target=_section("Who serves it", use),
        ),
        [own for _, own in answering],
        (*found.lua, *([policies] if (policies := policies_file(listener.name, routes)) is not None else [])),
    )


def _told(timed: dict[str, str], mirrors: dict[str, str], chooser: Chooser) -> list[Line]:
    """What filters are told of a request."""
    lines = chooser.valued(("http-request set-var-fmt(txn.times)",), timed, "times") if timed else []
    if mirrors:
        lines += chooser.valued(("http-request set-var-fmt(txn.mirrors)",), mirrors, "mirrors")
    return lines


def _mirrors(routes: list[tuple[str, Route]], lookup: Lookup, backends: Backends) -> dict[str, str]:
    """`backend percent` for each mirror, by the key of a route that has any."""
    return {
        key: " ".join(
            f"{backends.mirror(lookup.pool(mirror.pool), route.action.timeouts)} {mirror.percent:g}"
            for mirror in route.action.mirrors
        )
        for key, route in routes
        if isinstance(route.action, Forward) and route.action.mirrors
    }


def _section(title: str, lines: list[Line]) -> Section:
    return Section(Atom(title), tuple(lines))


def _forwards(route_key: RouteKey, lookup: Lookup) -> bool:
    return isinstance(lookup.route(route_key.route).action, Forward)


def _answering(route_keys: dict[str, RouteKey], lookup: Lookup) -> list[str]:
    return [key for key, route_key in route_keys.items() if not _forwards(route_key, lookup)]


def _redirects_to_own_host(listener: Listener, lookup: Lookup) -> bool:
    used = {rule.route for table in listener.hosts for rule in table.rules}
    actions = (lookup.route(name).action for name in used)
    return any(isinstance(action, Redirect) and action.host is None for action in actions)


def _trusted(listener: Listener) -> tuple[Line, ...]:
    networks = listener.trusted_proxies
    pieces = [networks[i : i + 40] for i in range(0, len(networks), 40)]
    return tuple(line(listener.field, "acl trusted src", *piece) for piece in pieces)


def _times(listener: Listener) -> Times:
    times = listener.timeouts
    return Times(*(Atom(milliseconds(time)) for time in (times.header, times.body, times.keepalive)))


def _address(listener: Listener) -> Atom:
    return Atom(f"[{listener.address}]" if ":" in listener.address else listener.address)


def _server(text: str) -> str:
    """A DNS server as `address:port`."""
    if text.count(":") > 1 and not text.startswith("["):
        return f"[{text}]:53"
    return text if ":" in text.rpartition("]")[2] else f"{text}:53"
