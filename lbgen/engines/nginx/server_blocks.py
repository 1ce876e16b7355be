"""Server blocks of listeners: a location per path, and named locations where several rules share one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lbgen.engines.nginx import paths, queues
from lbgen.engines.nginx.access_log import log_directives
from lbgen.engines.nginx.connection_options import (
    FilteredLocations,
    add_filtered_locations,
    is_http1,
    with_response_filter,
)
from lbgen.engines.nginx.headers import header_directives
from lbgen.engines.nginx.limits import HeadLimits, has_limits, real_ip_listeners
from lbgen.engines.nginx.listeners import close_conditions, listen_parameters, server_directives
from lbgen.engines.nginx.local_replies import plain_checks, with_own_pages
from lbgen.engines.nginx.location_tree import path_locations, raw_candidates
from lbgen.engines.nginx.matching import RuleMaps
from lbgen.engines.nginx.names import named_location, reference
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.timeouts import proxy_times
from lbgen.engines.nginx.view import Answer, Check, InternalRedirect, Location, Proxy, Server
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Mode, PathKind
from lbgen.records import replace

if TYPE_CHECKING:
    from lbgen.engines.nginx.actions import Body, RouteActions
    from lbgen.engines.nginx.headers import HeaderLines
    from lbgen.engines.nginx.location_tree import PathLocation
    from lbgen.engines.nginx.tls import VirtualServer
    from lbgen.engines.nginx.view import ClientTimes, Guard, Header
    from lbgen.plan.model import Listener, Plan, Route, Rule

_FAILED = Atom("@failed")


class ServerBlocks:
    """Builds the server blocks of a plan."""

    def __init__(self, plan: Plan, actions: RouteActions) -> None:
        self.actions = actions
        self.rule_maps = RuleMaps(actions.names, actions.values)
        self.head_limits = HeadLimits(actions.names, actions.version)
        self.paths = paths.PathPolicies(actions.kept, actions.version, http2=any(x.http2 for x in plan.listeners))
        self.filtered = FilteredLocations(actions.logged_routes, actions.texts, in_use=actions.filters)
        self._not_found = Answer(404, text("Not Found\n") if actions.kept.answers else None)
        self._with_real_ip = real_ip_listeners(plan)
        self._routes = {route.name: route for route in plan.routes}
        self._queued = {x.name: queues.listener_has_queue(plan, x) for x in plan.listeners}
        # A server block with a queue has a log of its own beside it, which replaces that of the http block.
        l7 = [x for x in plan.listeners if x.mode is Mode.L7]
        self.shared_log = tuple(log_directives(l7[0])) if len(l7) == 1 and not self._queued[l7[0].name] else ()

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
        exact = {p.path for p in own if p.kind is PathKind.EXACT}
        locations = [block.location(each, exact) for each in own]
        if not any(p.path == "/" and p.kind is PathKind.PREFIX for p in own):
            locations.append(Location(Atom(listener.field), below=Literal("/", "word"), answer=self._not_found))
        routes = {rule.route: self._routes[rule.route] for rule in block.rules}
        every_route = (*routes.values(), *block.target_routes.values())
        named = [*block.named, *(x for route in every_route for x in self.actions.answer_locations(route, listener))]
        filtered, key = None, None
        if self.actions.filters:
            headers_set = header_directives(standard)
            every = add_filtered_locations([*locations, *named], listener, headers_set, self.filtered)
            locations, named = every[: len(locations)], every[len(locations) :]
            filtered, key, more = self._filtered_rules(block, server, listener, headers_set)
            named += [each for each in more if each not in named]
        if not self.actions.kept.answers:
            locations, named = [with_own_pages(x) for x in locations], [with_own_pages(x) for x in named]
        queued, logs = self._queued[listener.name], not self.shared_log
        lines = server_directives(listener, server, self._with_real_ip, self.actions.version, queued=queued, logs=logs)
        return Server(
            origin=Atom(listener.field),
            listen=listen_parameters(listener, http2=listener.http2 and not self.actions.version.scripts),
            hosts=server.names,
            default=server.default,
            forwards=any(isinstance(route.action, Forward) for route in routes.values()),
            headers=headers,
            grpc=grpc,
            times=times,
            locations=tuple(sorted(locations, key=_file_order)),
            named=tuple(named),
            refused=self.paths.refused_status(listener),
            checks=self._checks(listener),
            lines=tuple(lines),
            close_if=close_conditions(listener),
            has_limits=any(has_limits(route) for route in routes.values()),
            filtered=filtered,
            filtered_key=key,
            has_not_found=block.has_not_found,
        )

    def _filtered_rules(
        self, block: _ServerBlock, server: VirtualServer, listener: Listener, standard: tuple[Header, ...]
    ) -> tuple[Atom | None, Atom | Literal | None, list[Location]]:
        """The variable that is set where Connection names fields, `$filtered` of such requests, and their locations."""
        rules = raw_candidates(server.table.rules)
        keys, locations = [], []
        for rule in (each.rule for each in rules):
            if (body := block.filtered_body(rule)) is None:
                keys.append("")
                continue
            facts = self.actions.facts(self.route(rule), listener)
            proxy = with_response_filter(body)
            key, location = self.filtered.add(listener, facts.name, proxy, facts.log_variables, standard)
            keys.append(key)
            locations.append(location)
        if not locations:
            return None, None, []
        target, host = paths.target_variable(listener), server.table.host
        label = "every host" if host is None else str(host).replace("*", "below")
        name, value = self.rule_maps.filtered_variable(rules, tuple(keys), target, label, listener)
        return name, value, list(dict.fromkeys(locations))

    def _checks(self, listener: Listener) -> tuple[Check, ...]:
        """The checks of every well-formed request to the listener."""
        checks = self.head_limits.checks(listener)
        if listener.access is not None:
            denied = self.actions.guards.access.variable(listener.access, listener, f"{listener.field}.access")
            checks = (*checks, Check(denied, 403, text("Forbidden\n")))
        return checks if self.actions.kept.answers else plain_checks(checks)

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
        self._tunnels: dict[tuple[str, Proxy], Atom] = {}
        self._mirrored: dict[tuple[str, Proxy], Proxy] = {}
        self._chained: dict[tuple[str, Proxy], Proxy] = {}
        self._answers: dict[tuple[str, Body], Atom] = {}
        self._variants: Counter[tuple[str, str]] = Counter()

    def location(self, own: PathLocation, exact: set[str]) -> Location:
        """The location of one path, which has an exact one of its own when it is in `exact`."""
        first = own.candidates[0]
        self.rules += [c.rule for c in own.candidates]
        prefix = own.kind is PathKind.PREFIX
        empty = Location(
            origin=Atom(first.rule.field),
            path=None if prefix and (own.path == "/" or own.path in exact) else Literal(own.path, "word"),
            below=Literal(own.path.rstrip("/") + "/", "word") if prefix else None,
        )
        if first.unconditional:
            return self._direct(empty, first.rule)
        pools = [self._actions.plain_pool(self._servers.route(c.rule)) for c in own.candidates]
        if own.candidates[-1].unconditional and None not in pools and not self._listener.logs:
            pool = self._servers.rule_maps.variable(
                own.candidates, tuple(map(str, pools)), "pool", self._target, self._listener
            )
            proxy = Proxy(reference(pool), self._actions.plain_target(self._listener))
            return replace(empty, proxy=proxy, filtered_before=self._actions.filters)
        self.has_not_found = self.has_not_found or not own.candidates[-1].unconditional
        locations = tuple(self._named(c.rule).text for c in own.candidates)
        variable = self._servers.rule_maps.variable(own.candidates, locations, "route", self._target, self._listener)
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
        facts = self._actions.facts(route, self._listener)
        proxy = body if isinstance(body, Proxy) and facts.at_once else None
        guard = None if proxy is not None else self._actions.guard(route, self._listener)
        location = replace(
            location,
            proxy=proxy,
            log_variables=facts.log_variables,
            route=facts.name,
            filtered_before=self._actions.filters and proxy is not None and is_http1(proxy),
        )
        if proxy is not None:
            return location
        if guard is None or isinstance(body, Proxy):
            if routes := self._actions.pool_selection.routes_by_target(route):
                return self._by_target(location, rule, route, routes, guard)
            return self._with_body(location, body, route, guard)
        # The answer's headers do not belong to answers of the guard, and `return` would precede limits.
        key = (rule.route, body)
        if key not in self._answers:
            self._answers[key] = self._next_name(rule.route, "answered")
            self.named.append(_add_body(Location(location.origin, name=self._answers[key]), body))
        failure_to = self._actions.failure_location(route) or _FAILED
        redirect = InternalRedirect(self._answers[key], has_limits(route), failure_to)
        return replace(location, guard=guard, redirect_to=redirect)

    def _with_body(self, location: Location, body: Body, route: Route, guard: Guard | None) -> Location:
        """`location` with its body, and the locations that the body needs."""
        location = self._with_tunnel(_add_body(location, body), route, guard)
        location = self._with_retries(self._with_mirrors(location, route), route, guard)
        return location if guard is None else replace(location, guard=guard)

    def _by_target(
        self, location: Location, rule: Rule, route: Route, routes: tuple[Route, ...], guard: Guard | None
    ) -> Location:
        """Targets of a split with different protocols have a location each."""
        names = []
        for each in routes:
            body = self._actions.build_body(rule, each, self._listener, self._standard)
            key = (each.name, body)
            if key not in self._names:
                self.target_routes[each.name] = each
                self._names[key] = self._next_name(each.name, "to")
                facts = self._actions.facts(each, self._listener)
                empty = Location(
                    location.origin, name=self._names[key], log_variables=facts.log_variables, route=facts.name
                )
                self.named.append(self._with_body(empty, body, each, guard))
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

    def _with_retries(self, location: Location, route: Route, guard: Guard | None) -> Location:
        """Each further try has a location, and so has a queue."""
        proxy = location.proxy
        if proxy is None or not isinstance(route.action, Forward):
            return location
        selection, retries = self._actions.pool_selection, self._actions.retries
        fallback = selection.fallback_upstream(route, route.action)
        queued = self._actions.queued_pool(route)
        if route.action.retries is None and fallback is None and queued is None:
            return location
        key = (route.name, proxy)
        if key not in self._chained:
            self._variants[route.name, "again"] += 1
            variant = self._variants[route.name, "again"]
            if queued is not None:
                retries.add_common_maps()
                self._chained[key], more = self._actions.queues.add_queue(location, route, proxy, variant)
            else:
                split = selection.split_variable(route)
                start = replace(location, guard=guard)
                self._chained[key], more = retries.add_chain(
                    start, route, route.action, proxy, variant, split, fallback
                )
            self.named += more
        return replace(location, proxy=self._chained[key])

    def filtered_body(self, rule: Rule) -> Proxy | None:
        """How a rule forwards whose requests the server block itself can send to a filtered location, else None."""
        if not self._actions.facts(self._servers.route(rule), self._listener).at_once:
            return None
        body = self._body(rule)
        return body if isinstance(body, Proxy) and is_http1(body) else None

    def _next_name(self, route: str, what: str) -> Atom:
        """An unused name for a location of the route in this block."""
        self._variants[route, what] += 1
        count = self._variants[route, what]
        return named_location(route, f"{what}{count}" if count > 1 else what)

    def _with_tunnel(self, location: Location, route: Route, guard: Guard | None) -> Location:
        """WebSockets have a location of their own where their timeout differs from that of responses."""
        proxy = location.proxy
        if proxy is None or not isinstance(route.action, Forward):
            return location
        timeouts = route.action.timeouts
        if timeouts.response == timeouts.idle:
            return location
        key = (route.name, proxy)
        if key not in self._tunnels:
            self._tunnels[key] = name = self._next_name(route.name, "tunnel")
            idle = proxy_times(replace(timeouts, response=timeouts.idle))
            tunnel = Location(
                location.origin, route=location.route, name=name, proxy=replace(proxy, times=idle), guard=guard
            )
            self.named.append(self._with_retries(tunnel, route, guard))
        # An error_page in a location replaces all inherited ones.
        failure_to = proxy.failure_to or _FAILED
        return replace(location, proxy=replace(proxy, tunnel_to=self._tunnels[key], failure_to=failure_to))

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
