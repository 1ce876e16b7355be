"""Server blocks of listeners: a location per path, and named locations where several rules share one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.engines.nginx import paths
from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.limits import HeadLimits, real_ip_listeners
from lbgen.engines.nginx.listeners import listen_parameters
from lbgen.engines.nginx.location_tree import PathLocation, path_locations
from lbgen.engines.nginx.matching import RuleMaps
from lbgen.engines.nginx.names import named_location, reference
from lbgen.engines.nginx.view import (
    Answer,
    Check,
    ClientTimes,
    Header,
    HttpServer,
    InternalRedirect,
    Location,
    Proxy,
    Server,
)
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Listener, Plan, Route, Rule
from lbgen.plan.path_conditions import ExactPath, PrefixPath

if TYPE_CHECKING:
    from lbgen.engines.nginx.actions import Body, RouteActions
    from lbgen.engines.nginx.headers import HeaderLines
    from lbgen.engines.nginx.tls import VirtualServer


class ServerBlocks:
    """Builds the server blocks of a plan."""

    def __init__(self, plan: Plan, actions: RouteActions) -> None:
        self.actions = actions
        self.rule_maps = RuleMaps(actions.names, actions.values)
        self.head_limits = HeadLimits(actions.names)
        self.paths = paths.PathPolicies()
        self._plan = plan
        self._real_ip = real_ip_listeners(plan)
        self._routes = {route.name: route for route in plan.routes}

    def build(
        self,
        listener: Listener,
        server: VirtualServer,
        standard: HeaderLines,
        headers: tuple[Header, ...],
        grpc: tuple[Header, ...],
        times: ClientTimes | None,
    ) -> Server:
        """One block of a listener. `standard` are its headers; `headers`, `grpc` and `times` those that differ from the
        http block."""
        block = _ServerBlock(self, listener, standard)
        own = path_locations(
            server.table.rules,
            test_raw_paths=paths.matches_raw_path(listener),
            single=paths.ignores_locations(listener),
        )
        exact = {p.path for p in own if p.kind is ExactPath}
        locations = [block.location(each, exact) for each in own]
        if not any(p.path == "/" and p.kind is PrefixPath for p in own):
            locations.append(Location(Atom(listener.field), below=Literal("/", "word"), answer=Answer(404, None)))
        routes = {rule.route: self._routes[rule.route] for rule in block.rules}
        answers = (self.actions.answer_location(each) for each in (*routes.values(), *block.target_routes.values()))
        named = (*block.named, *(each for each in answers if each is not None))
        real_ip = listener.name in self._real_ip
        at = HttpServer(self._plan, self.actions.version.number, listener, server.certificate, real_ip)
        return Server(
            origin=Atom(listener.field),
            listen=listen_parameters(listener, http2=listener.http2 and not self.actions.version.http2_directive),
            hosts=server.names,
            default=server.default,
            headers=headers,
            grpc=grpc,
            times=times,
            locations=tuple(sorted(locations, key=_file_order)),
            named=named,
            refused=self.paths.refused(listener),
            checks=self._checks(listener),
            lines=tuple(line for each in FEATURES if each.server for line in each.server(at)),
            has_not_found=block.has_not_found,
        )

    def _checks(self, listener: Listener) -> tuple[Check, ...]:
        """The checks of every well-formed request to the listener."""
        checks = self.head_limits.checks(listener)
        if listener.access is not None:
            denied = self.actions.guards.access.variable(listener.access, listener, f"{listener.field}.access")
            checks = (*checks, Check(denied, 403))
        return checks

    def route(self, rule: Rule) -> Route:
        return self._routes[rule.route]


class _ServerBlock:
    """The locations of one server block; `rules` are those that some location uses."""

    def __init__(self, servers: ServerBlocks, listener: Listener, standard: HeaderLines) -> None:
        self.named: list[Location] = []
        self.rules: list[Rule] = []
        self.has_not_found = False
        self.target_routes: dict[str, Route] = {}
        self._servers = servers
        self._actions = servers.actions
        self._listener = listener
        self._standard = standard
        self._target = paths.target_variable(listener)
        self._bodies: dict[str, Body] = {}
        self._names: dict[tuple[str, Body], Atom] = {}
        self._mirrored: dict[tuple[str, Proxy], Proxy] = {}
        self._answers: dict[tuple[str, Body], Atom] = {}
        self._variants: Counter[tuple[str, str]] = Counter()

    def location(self, own: PathLocation, exact: set[str]) -> Location:
        """The location of one path, which has an exact one of its own when it is in `exact`."""
        first = own.candidates[0]
        self.rules += [c.rule for c in own.candidates]
        prefix = own.kind is PrefixPath
        empty = Location(
            origin=Atom(first.rule.field),
            path=None if prefix and (own.path == "/" or own.path in exact) else Literal(own.path, "word"),
            below=Literal(own.path.rstrip("/") + "/", "word") if prefix else None,
        )
        if first.unconditional:
            return self._direct(empty, first.rule)
        self.has_not_found = self.has_not_found or not own.candidates[-1].unconditional
        locations = tuple(self._named(c.rule).text for c in own.candidates)
        variable = self._servers.rule_maps.variable(own.candidates, locations, self._target, self._listener)
        return replace(empty, redirect_to=InternalRedirect(reference(variable)))

    def _direct(self, location: Location, rule: Rule) -> Location:
        """`location` for the requests of one rule."""
        body = self._body(rule)
        path = location.path.text if location.path else ""
        if isinstance(body, Proxy) and location.below is None and len(path) > 1 and path.endswith("/"):
            # nginx redirects `/x` to `/x/` where the location of `/x/` has a proxy_pass.
            return replace(location, redirect_to=InternalRedirect(self._named(rule)))
        return self._with_guard(location, body, rule)

    def _with_guard(self, location: Location, body: Body, rule: Rule) -> Location:
        """`location` with the guard of the rule's route and its body."""
        route = self._servers.route(rule)
        log = self._actions.log_variables(route, self._listener)
        location = replace(location, log_variables=log, route=Atom(route.name))
        guard = self._actions.guard(route, self._listener, named=location.name is not None)
        if guard is None or isinstance(body, Proxy):
            if routes := self._actions.pool_selection.routes_by_target(route):
                return self._by_target(location, rule, route, routes)
            return replace(self._with_mirrors(_add_body(location, body), route), guard=guard)
        # `return` would precede the limits, so the answer is in a location of its own.
        key = (rule.route, body)
        if key not in self._answers:
            self._answers[key] = self._next_name(rule.route, "answered")
            self.named.append(_add_body(Location(location.origin, name=self._answers[key]), body))
        redirect = InternalRedirect(self._answers[key], after_limits=bool(guard.lines))
        return replace(location, guard=guard, redirect_to=redirect)

    def _by_target(self, location: Location, rule: Rule, route: Route, routes: tuple[Route, ...]) -> Location:
        """Targets of a split with different protocols have a location each."""
        names = []
        for each in routes:
            body = self._actions.build_body(rule, each, self._listener, self._standard)
            key = (each.name, body)
            if key not in self._names:
                self.target_routes[each.name] = each
                self._names[key] = self._next_name(each.name, "to")
                log = self._actions.log_variables(each, self._listener)
                empty = Location(location.origin, name=self._names[key], log_variables=log, route=Atom(each.name))
                guard = self._actions.guard(route, self._listener, named=True)
                self.named.append(replace(self._with_mirrors(_add_body(empty, body), each), guard=guard))
            names.append(self._names[key])
        variable = self._actions.pool_selection.target_location(route, tuple(names))
        return replace(location, redirect_to=InternalRedirect(variable))

    def _with_mirrors(self, location: Location, route: Route) -> Location:
        """Each mirror has a location."""
        proxy = location.proxy
        if proxy is None or not isinstance(route.action, Forward) or not route.action.mirrors:
            return location
        key = (route.name, proxy)
        if key not in self._mirrored:
            self._variants[route.name, "mirror"] += 1
            variant = self._variants[route.name, "mirror"]
            mirrors = self._actions.mirrors
            self._mirrored[key], more = mirrors.add_mirrors(location, route, route.action, proxy, variant)
            self.named += more
        return replace(location, proxy=self._mirrored[key])

    def _next_name(self, route: str, what: str) -> Atom:
        """An unused name for a location of the route in this block."""
        self._variants[route, what] += 1
        count = self._variants[route, what]
        return named_location(route, f"{what}{count}" if count > 1 else what)

    def _body(self, rule: Rule) -> Body:
        if rule.id not in self._bodies:
            route = self._servers.route(rule)
            self._bodies[rule.id] = self._actions.build_body(rule, route, self._listener, self._standard)
        return self._bodies[rule.id]

    def _named(self, rule: Rule) -> Atom:
        """The named location of a rule; rules of one route share it unless their bodies differ."""
        body = self._body(rule)
        key = (rule.route, body)
        if key not in self._names:
            self._names[key] = self._next_name(rule.route, "")
            self.named.append(self._with_guard(Location(Atom(rule.field), name=self._names[key]), body, rule))
        return self._names[key]


def _add_body(location: Location, body: Body) -> Location:
    return replace(location, proxy=body) if isinstance(body, Proxy) else replace(location, answer=body)


def _file_order(location: Location) -> tuple[str, bool]:
    """By path, exact locations before prefixes."""
    path = location.path or location.below
    return (path.text if path else "", location.below is not None)
