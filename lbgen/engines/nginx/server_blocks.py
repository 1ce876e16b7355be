"""Server blocks of listeners: a location per path, and named locations where several rules share one.

nginx selects a location by the decoded path, while rules compare raw paths. With strict paths decoding is unambiguous
except for reserved characters: `/a:b` and `/a%3Ab` share a location. The rules of such a location test the raw path as
well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from lbgen.engines.nginx import paths
from lbgen.engines.nginx.actions import Body, answer_headers, answer_location, build_body, build_guard
from lbgen.engines.nginx.error_pages import NO_PAGES, Pages
from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.listeners import listen_parameters
from lbgen.engines.nginx.matching import location_variable
from lbgen.engines.nginx.names import named_location, reference
from lbgen.engines.nginx.pool_selection import routes_by_target, target_location
from lbgen.engines.nginx.statements import Answer, Header, InternalRedirect, Line, Location, Proxy, Server
from lbgen.engines.nginx.timeouts import client_times
from lbgen.engines.nginx.tls import VirtualServer
from lbgen.engines.nginx.upstream_protocols import upstream_module
from lbgen.engines.nginx.view import HttpBlock, HttpListener, HttpRoute, HttpServer
from lbgen.engines.text import Atom, Literal
from lbgen.plan.auth import ForwardAuth
from lbgen.plan.error_pages import ErrorPage, intercepts
from lbgen.plan.model import Forward, Listener, Route, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath, covering_prefixes
from lbgen.plan.precedence import Candidate, PathGroup, path_groups, until_unconditional

_LOCATIONS = [each.location for each in FEATURES if each.location]
_COPIES = [each.copies for each in FEATURES if each.copies]
_MORE = [each.locations for each in FEATURES if each.locations]
# Reserved characters, which a strict path may contain both raw and escaped.
_RAW_OR_ESCAPED = frozenset("!$&'()*+,;=:@[]")


def build_server(on: HttpBlock, listener: Listener, server: VirtualServer) -> Server:
    """One block of a listener."""
    block = _ServerBlock(on, listener)
    errors = block.server_errors()
    own = path_locations(
        server.table.rules,
        test_raw_paths=paths.matches_raw_path(listener),
        single=paths.ignores_locations(listener),
    )
    exact = {p.path for p in own if p.kind is ExactPath}
    locations = [block.location(each, exact) for each in own]
    if not any(p.path == "/" and p.kind is PrefixPath for p in own):
        locations.append(Location(Atom(listener.field), below=Literal("/", "word"), answer=Answer(404, None)))
    answers = map(answer_location, (*block.routes.values(), *block.target_routes.values()))
    more = (location for each in _MORE for location in each(on, listener, block.routes.values()))
    named = (*block.named, *(each for each in answers if each is not None), *more, *block.pages.locations)
    at, times = HttpServer(on, listener, server.certificate), client_times(listener.timeouts)
    return Server(
        origin=Atom(listener.field),
        listen=listen_parameters(listener, http2=listener.http2 and not on.version.http2_directive),
        hosts=server.names,
        default=server.default,
        times=None if times == on.client_times else times,
        locations=tuple(sorted(locations, key=_file_order)),
        named=named,
        checks=tuple(check for each in FEATURES if each.checks for check in each.checks(at)),
        lines=(*(line for each in FEATURES if each.server for line in each.server(at)), *errors),
        has_not_found=block.has_not_found,
    )


class _ServerBlock:
    """The locations of one server block; `routes` are those of rules that some location uses."""

    def __init__(self, on: HttpBlock, listener: Listener) -> None:
        self.named: list[Location] = []
        self.routes: dict[str, HttpRoute] = {}
        self.has_not_found = False
        self.target_routes: dict[str, HttpRoute] = {}
        self.pages = Pages(HttpListener(on, listener))
        self._on = on
        self._listener = listener
        self._target = paths.target_variable(listener)
        self._bodies: dict[str, Body] = {}
        self._names: dict[tuple[str, Body], Atom] = {}
        self._mirrored: dict[tuple[str, Proxy], Proxy] = {}
        self._answers: dict[tuple[str, Body], Atom] = {}
        self._variants: Counter[tuple[str, str]] = Counter()

    def location(self, own: PathLocation, exact: set[str]) -> Location:
        """The location of one path, which has an exact one of its own when it is in `exact`."""
        first, on = own.candidates[0], self._on
        routes = [HttpRoute(on, self._listener, c.rule, on.plan.route(c.rule.route)) for c in own.candidates]
        for at in routes:
            self.routes.setdefault(at.route.name, at)
        prefix = own.kind is PrefixPath
        empty = Location(
            origin=Atom(first.rule.field),
            path=None if prefix and (own.path == "/" or own.path in exact) else Literal(own.path, "word"),
            below=Literal(own.path.rstrip("/") + "/", "word") if prefix else None,
        )
        if first.unconditional:
            return self._direct(empty, routes[0])
        self.has_not_found = self.has_not_found or not own.candidates[-1].unconditional
        locations = tuple(self._named(at).text for at in routes)
        variable = location_variable(on.definitions, on.values, own.candidates, locations, self._target, self._listener)
        return replace(empty, redirect_to=InternalRedirect(reference(variable)))

    def _direct(self, location: Location, at: HttpRoute) -> Location:
        """`location` for the requests of one rule."""
        body = self._body(at)
        path = location.path.text if location.path else ""
        if isinstance(body, Proxy) and location.below is None and len(path) > 1 and path.endswith("/"):
            # nginx redirects `/x` to `/x/` where the location of `/x/` has a proxy_pass.
            return replace(location, redirect_to=InternalRedirect(self._named(at)))
        return self._with_guard(location, body, at)

    def _with_guard(self, location: Location, body: Body, at: HttpRoute) -> Location:
        """`location` with the guard of the rule's route and its body."""
        location = self._start(location, at)
        guard = build_guard(at, named=location.name is not None)
        if guard is None or isinstance(body, Proxy):
            if routes := routes_by_target(self._on, at.route):
                return self._by_target(location, at, routes)
            if isinstance(body, Proxy):
                location = replace(location, errors=self._errors(at, jumps=False))
            return replace(self._with_copies(_add_body(location, body), at), guard=guard)
        # `return` would precede the limits, so the answer is in a location of its own.
        key = (at.route.name, body)
        if key not in self._answers:
            self._answers[key] = self._next_name(at.route.name, "answered")
            self.named.append(_add_body(Location(location.origin, name=self._answers[key]), body))
        redirect = InternalRedirect(self._answers[key], after_limits=bool(guard.lines))
        errors = self._errors(at, jumps=not guard.lines)
        return replace(location, guard=guard, redirect_to=redirect, errors=errors)

    def server_errors(self) -> tuple[Line, ...]:
        """The directives for answers on the listener that belong to no route."""
        return self.pages.lines(self._listener.error_pages, lambda page: ((), page.content_type))

    def _errors(self, at: HttpRoute, *, jumps: bool) -> tuple[Line, ...]:
        """The directives of a location that may answer by itself, unless those of the server block do. `jumps`: its own
        error_page, by which it leads on, keeps these away."""
        pages = self._on.plan.error_pages(at.listener, at.route)
        if not pages:
            return NO_PAGES if at.listener.error_pages else ()
        action = at.route.action
        module = ""
        if isinstance(action, Forward) and intercepts(pages):
            module = self._module(action)
        asks = isinstance(at.route.auth, ForwardAuth)  # its own error_page is for 401
        if not (jumps or asks or module or at.route.error_pages or answer_headers(at)[0] or at.route.response_headers):
            return ()
        return self.pages.lines(pages, lambda page: _page_headers(at, page), module=module, without=401 if asks else 0)

    def _module(self, action: Forward) -> str:
        pool = self._on.plan.pool(action.targets[0].pool)
        return upstream_module(pool, self._on.version)

    def _by_target(self, location: Location, whole: HttpRoute, routes: tuple[Route, ...]) -> Location:
        """Targets of a split with different protocols have a location each."""
        names = []
        for each in routes:
            at = replace(whole, route=each)
            body = build_body(at)
            key = (each.name, body)
            if key not in self._names:
                self.target_routes[each.name] = at
                self._names[key] = self._next_name(each.name, "to")
                empty = self._start(Location(location.origin, name=self._names[key]), at)
                empty = replace(empty, errors=self._errors(at, jumps=False))
                guard = build_guard(whole, named=True)
                self.named.append(replace(self._with_copies(_add_body(empty, body), at), guard=guard))
            names.append(self._names[key])
        variable = target_location(self._on, whole.route, tuple(names))
        return replace(location, redirect_to=InternalRedirect(variable))

    def _start(self, location: Location, at: HttpRoute) -> Location:
        lines = tuple(line for each in _LOCATIONS for line in each(at))
        return replace(location, log_variables=lines, route=Atom(at.route.name))

    def _with_copies(self, location: Location, at: HttpRoute) -> Location:
        """With what else it takes to forward a request, such as locations of mirrors."""
        proxy, action = location.proxy, at.route.action
        if proxy is None or not isinstance(action, Forward):
            return location
        key = (at.route.name, proxy)
        if key not in self._mirrored:
            number = self._variants.get((at.route.name, "mirror"), 0) + 1
            self._mirrored[key] = proxy
            for each in _COPIES:
                lines, locations = each(at, action, location, proxy, number)
                if lines:
                    self._variants[at.route.name, "mirror"] = number
                    self._mirrored[key] = replace(proxy, lines=(*proxy.lines, *lines))
                    self.named += locations
        return replace(location, proxy=self._mirrored[key])

    def _next_name(self, route: str, what: str) -> Atom:
        """An unused name for a location of the route in this block."""
        self._variants[route, what] += 1
        count = self._variants[route, what]
        return named_location(route, f"{what}{count}" if count > 1 else what)

    def _body(self, at: HttpRoute) -> Body:
        if at.rule.id not in self._bodies:
            self._bodies[at.rule.id] = build_body(at)
        return self._bodies[at.rule.id]

    def _named(self, at: HttpRoute) -> Atom:
        """The named location of a rule; rules of one route share it unless their bodies differ."""
        body = self._body(at)
        key = (at.route.name, body)
        if key not in self._names:
            self._names[key] = self._next_name(at.route.name, "")
            self.named.append(self._with_guard(Location(Atom(at.rule.field), name=self._names[key]), body, at))
        return self._names[key]


def _page_headers(at: HttpRoute, page: ErrorPage) -> tuple[tuple[Header, ...], str | None]:
    add, kind = answer_headers(at, [("content-type", page.content_type)])
    return add, kind if isinstance(kind, str) else page.content_type


def _add_body(location: Location, body: Body) -> Location:
    return replace(location, proxy=body) if isinstance(body, Proxy) else replace(location, answer=body)


def _file_order(location: Location) -> tuple[str, bool]:
    """By path, exact locations before prefixes."""
    path = location.path or location.below
    return (path.text if path else "", location.below is not None)


class PathLocation(Struct, frozen=True, eq=False):
    """A location with its decoded path; PREFIX matches by segment. Candidates end at the first unconditional one."""

    kind: type[Path]
    path: str
    candidates: tuple[Candidate, ...]


def path_locations(
    rules: Sequence[Rule], *, test_raw_paths: bool = False, single: bool = False
) -> tuple[PathLocation, ...]:
    """The locations of one host's rules: exact ones by path, then prefixes, shorter first. With `test_raw_paths` every
    rule tests the raw path, with `single` in one location for all paths."""
    if single:
        return (PathLocation(PrefixPath, "/", raw_candidates(rules)),) if rules else ()
    groups = [(group, decode_path(group.path)) for group in path_groups(rules)]
    known = {group.path for group, path in groups if group.kind is PrefixPath and _writable(path)}
    by_path: dict[tuple[type[Path], str], list[PathGroup]] = {}
    tested = set()
    for group, path in groups:
        key = (group.kind, path)
        if not _writable(path):
            # nginx.conf cannot hold bytes that are no UTF-8: the nearest prefix location tests the raw path.
            key = (PrefixPath, decode_path(next((p for p in covering_prefixes(group.path) if p in known), "/")))
            tested.add(key)
        by_path.setdefault(key, []).append(group)
    locations = []
    for key, own in by_path.items():
        if key not in tested and not test_raw_paths and _RAW_OR_ESCAPED.isdisjoint(key[1]):
            # The decoded path has one raw form, hence one group.
            candidates = own[0].candidates
        else:
            candidates = tuple(until_unconditional(_merged([*own, *_around(key[1], by_path)], test_raw_paths)))
        locations.append(PathLocation(*key, candidates))
    return tuple(sorted(locations, key=lambda p: (p.kind is PrefixPath, p.path)))


def raw_candidates(rules: Iterable[Rule]) -> tuple[Candidate, ...]:
    """The rules in their order, each of which tests the raw path."""
    by_rank = sorted(rules, key=lambda rule: rule.rank)
    return tuple(until_unconditional(Candidate(rule, test_path=not rule.match.path.covers_all) for rule in by_rank))


@lru_cache(maxsize=65536)
def decode_path(path: str) -> str:
    """A path as nginx decodes it, with bytes that are no UTF-8 as lone surrogates."""
    return unquote(path, errors="surrogateescape") if "%" in path else path


def _around(path: str, by_path: dict[tuple[type[Path], str], list[PathGroup]]) -> Iterator[PathGroup]:
    for prefix in covering_prefixes(path):
        yield from by_path.get((PrefixPath, prefix), ())


def _merged(groups: Iterable[PathGroup], test_raw_paths: bool) -> list[Candidate]:
    """The rules of groups that share a location or contain it; ambiguous ones test the raw path."""
    rules = {c.rule.rank: c.rule for group in groups for c in group.candidates}
    return [Candidate(rules[rank], _is_ambiguous(rules[rank], test_raw_paths)) for rank in sorted(rules)]


def _is_ambiguous(rule: Rule, test_raw_paths: bool) -> bool:
    """Whether the location of the rule's path also gets requests that the rule does not match."""
    if test_raw_paths:
        return not rule.match.path.covers_all
    path = decode_path(rule.match.path.value)
    return not rule.match.path.is_text or not _RAW_OR_ESCAPED.isdisjoint(path) or not _writable(path)


def _writable(path: str) -> bool:
    return path.isascii() or not any("\udc80" <= char <= "\udcff" for char in path)
