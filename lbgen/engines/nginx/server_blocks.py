"""A listener's host tables -> server blocks: a location for each place, named locations where rules share one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines.nginx import paths, queues
from lbgen.engines.nginx.access import seen_through
from lbgen.engines.nginx.connection_options import both_forms
from lbgen.engines.nginx.headers import printed
from lbgen.engines.nginx.limits import limited
from lbgen.engines.nginx.listeners import lines, listen, unanswered
from lbgen.engines.nginx.location_tree import places
from lbgen.engines.nginx.matching import METHOD, inputs, pattern
from lbgen.engines.nginx.names import inline, named, reference
from lbgen.engines.nginx.sizes import Sizes
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.timeouts import times
from lbgen.engines.nginx.view import Answer, Check, Entry, Hop, Location, Map, Proxy, Server
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, PathKind

if TYPE_CHECKING:
    from lbgen.engines.nginx.actions import Actions, Body
    from lbgen.engines.nginx.headers import Lines
    from lbgen.engines.nginx.location_tree import Candidate, Place
    from lbgen.engines.nginx.request_values import Values
    from lbgen.engines.nginx.tls import Face
    from lbgen.engines.nginx.view import ClientTimes, Gate, Header
    from lbgen.plan.model import Listener, Plan, Route, Rule

_NOT_FOUND = Atom("@not_found")
_FAILED = Atom("@failed")


class Servers:
    """Makes the server blocks of a plan; maps that choose among rules gather in `maps`."""

    def __init__(self, plan: Plan, actions: Actions, *, old: bool) -> None:
        self.old = old
        self.actions = actions
        self.maps: list[Map] = []
        self.values = actions.values
        self.sizes = Sizes(actions.names, old=old)
        self.paths = paths.PathPolicies(http2=any(listener.http2 for listener in plan.listeners), old=old)
        self._plan = plan
        self._replaced = seen_through(plan)
        self._routes = {route.name: route for route in plan.routes}
        self._chosen: dict[tuple[str, tuple[tuple[str, bool, str], ...]], str] = {}
        self._by_content: dict[tuple[object, ...], Map] = {}
        self._waits = {x.name: queues.of_listener(plan, x) for x in plan.listeners}

    def of(
        self,
        listener: Listener,
        face: Face,
        standard: Lines,
        headers: tuple[Header, ...],
        grpc: tuple[Header, ...],
        times: ClientTimes | None,
    ) -> Server:
        """One block of a listener; `standard` are its headers, `headers` those it must spell out."""
        table = face.table
        block = _Block(self, listener, standard)
        found = places(table.rules, loose=paths.loose(listener), flat=paths.flat(listener))
        exact = {p.path for p in found if p.kind is PathKind.EXACT}
        locations = [block.location(place, exact) for place in found]
        if not any(p.path == "/" and p.kind is PathKind.PREFIX for p in found):
            locations.append(Location(Atom(listener.field), below=Literal("/", "word"), answer=not_found()))
        used = {rule.route: None for rule in block.used}
        every = (*(self._routes[name] for name in used), *block.parts.values())
        helpers = [x for route in every for x in self.actions.helpers(route)]
        named = [*block.named, *helpers]
        if not self.old:
            every_one = both_forms([*locations, *named], printed(standard), Atom(listener.field), self.actions.texts)
            locations, named = every_one[: len(locations)], every_one[len(locations) :]
        return Server(
            origin=Atom(listener.field),
            listen=listen(listener, old=self.old),
            hosts=face.names,
            default=face.default,
            forwards=any(isinstance(self._routes[name].action, Forward) for name in used),
            headers=headers,
            grpc=grpc,
            times=times,
            locations=tuple(sorted(locations, key=_place_in_file)),
            named=tuple(named),
            refused=self.paths.refused(listener),
            checks=self.checks(listener),
            lines=lines(listener, face, self._replaced, old=self.old, queued=self._waits[listener.name]),
            unanswered=unanswered(listener),
            limited=any(limited(self._routes[name]) for name in used),
        )

    def checks(self, listener: Listener) -> tuple[Check, ...]:
        """What every request to the listener must pass once it is well-formed."""
        sizes = self.sizes.checks(listener)
        if listener.access is None:
            return sizes
        denied = self.actions.gates.gatekeeper.denied(listener.access, listener, f"{listener.field}.access")
        return (*sizes, Check(denied, 403, text("Forbidden\n")))

    def variable(self, candidates: tuple[Candidate, ...], goals: tuple[str, ...], kind: str, target: str) -> str:
        """The map that chooses one of `goals` by the first candidate that holds; the same choice is one map."""
        key = (target, tuple((c.rule.id, c.test_path, goal) for c, goal in zip(candidates, goals, strict=True)))
        if key not in self._chosen:
            name = self.actions.names.variable(kind, goals[0].removeprefix("@"))
            self._chosen[key] = self._shared(_map(name, candidates, goals, self.values, target))
        return self._chosen[key]

    def _shared(self, made: Map) -> str:
        """The name of the map that chooses like `made`; rules of several hosts often do."""
        known = self._by_content.setdefault((made.source, made.default, made.entries), made)
        if known is made:
            self.maps.append(made)
        return known.name.text.removeprefix("$")

    def body(self, rule: Rule, listener: Listener, standard: Lines) -> Body:
        return self.actions.body(rule, self._routes[rule.route], listener, standard)

    def simple_pool(self, rule: Rule) -> str | None:
        return self.actions.simple_pool(self.route(rule))

    def route(self, rule: Rule) -> Route:
        return self._routes[rule.route]


class _Block:
    """One server block in the making."""

    def __init__(self, servers: Servers, listener: Listener, standard: Lines) -> None:
        self.servers = servers
        self.listener = listener
        self.standard = standard
        self.target = paths.target(listener)
        self.named: list[Location] = []
        self.used: list[Rule] = []
        self._names: dict[tuple[str, Body], Atom] = {}
        self._tunnels: dict[tuple[str, Proxy], Atom] = {}
        self.parts: dict[str, Route] = {}
        self._copied: dict[tuple[str, Proxy], Proxy] = {}
        self._chains: dict[tuple[str, Proxy], Proxy] = {}
        self._answers: dict[tuple[str, Body], Atom] = {}
        self._variants: Counter[tuple[str, str]] = Counter()

    def location(self, place: Place, exact: set[str]) -> Location:
        """The location for one place; `exact` paths have one of their own."""
        first = place.candidates[0]
        self.used += [c.rule for c in place.candidates]
        prefix = place.kind is PathKind.PREFIX
        empty = Location(
            origin=Atom(first.rule.field),
            path=None if prefix and (place.path == "/" or place.path in exact) else Literal(place.path, "word"),
            below=Literal(place.path.rstrip("/") + "/", "word") if prefix else None,
        )
        if first.unconditional:
            return self._direct(empty, first.rule)
        pools = [self.servers.simple_pool(c.rule) for c in place.candidates]
        if place.candidates[-1].unconditional and None not in pools and not self.listener.access_log:
            pool = self.servers.variable(place.candidates, tuple(map(str, pools)), "pool", self.target)
            return replace(empty, proxy=Proxy(reference(pool), self.servers.actions.plain_target(self.listener)))
        goals = tuple(self._named(c.rule).text for c in place.candidates)
        return replace(empty, hop=Hop(reference(self.servers.variable(place.candidates, goals, "route", self.target))))

    def _direct(self, location: Location, rule: Rule) -> Location:
        body = self._body(rule)
        path = location.path.text if location.path else ""
        if isinstance(body, Proxy) and location.below is None and len(path) > 1 and path.endswith("/"):
            # nginx redirects `/x` to `/x/` where a location of that name has a proxy_pass of its own.
            return replace(location, hop=Hop(self._named(rule)))
        return self._finished(location, body, rule)

    def _finished(self, location: Location, body: Body, rule: Rule) -> Location:
        """`location` with the gate of the rule's route and its body."""
        route = self.servers.route(rule)
        gate = self.servers.actions.gate(route, self.listener)
        location = replace(location, logged=self.servers.actions.logged(route, self.listener))
        if gate is None or isinstance(body, Proxy):
            if parts := self.servers.actions.chooser.parts(route):
                return self._apart(location, rule, route, parts, gate)
            return self._whole(location, body, route, gate)
        # An answer of its own has headers that those of the gate must not have, and `return` would come before limits.
        key = (rule.route, body)
        if key not in self._answers:
            self._answers[key] = self._next(rule.route, "answered")
            self.named.append(_with_body(Location(location.origin, name=self._answers[key]), body))
        on_failure = self.servers.actions.failed(route) or _FAILED
        return replace(location, gate=gate, hop=Hop(self._answers[key], limited(route), on_failure))

    def _whole(self, location: Location, body: Body, route: Route, gate: Gate | None) -> Location:
        """`location` with its body, gate and all that the body needs beside it."""
        whole = self._with_tunnel(_with_body(location, body), route, gate)
        whole = self._with_retries(self._with_mirrors(whole, route), route, gate)
        return replace(whole, gate=gate)

    def _apart(
        self, location: Location, rule: Rule, route: Route, parts: tuple[Route, ...], gate: Gate | None
    ) -> Location:
        """The targets of a split that are spoken to in different ways have locations of their own."""
        names = []
        for part in parts:
            body = self.servers.actions.body(rule, part, self.listener, self.standard)
            key = (part.name, body)
            if key not in self._names:
                self.parts[part.name] = part
                self._names[key] = self._next(part.name, "to")
                logged = self.servers.actions.logged(part, self.listener)
                own = Location(location.origin, name=self._names[key], logged=logged)
                self.named.append(self._whole(own, body, part, gate))
            names.append(self._names[key])
        goal = self.servers.actions.chooser.goal(route, tuple(names))
        return replace(location, hop=Hop(goal))

    def _with_mirrors(self, location: Location, route: Route) -> Location:
        """Copies are made by locations of their own."""
        proxy = location.proxy
        if proxy is None or not isinstance(route.action, Forward) or not route.action.mirrors:
            return location
        key = (route.name, proxy)
        if key not in self._copied:
            self._variants[route.name, "mirror"] += 1
            variant = self._variants[route.name, "mirror"]
            mirrors = self.servers.actions.mirrors
            self._copied[key], more = mirrors.of(location, route, route.action, proxy, variant)
            self.named += more
        return replace(location, proxy=self._copied[key])

    def _with_retries(self, location: Location, route: Route, gate: Gate | None) -> Location:
        """Further tries have locations of their own."""
        proxy = location.proxy
        if proxy is None or not isinstance(route.action, Forward):
            return location
        detour = self.servers.actions.chooser.detour(route, route.action)
        waits = self.servers.actions.queued_pool(route)
        if route.action.retries is None and detour is None and waits is None:
            return location
        key = (route.name, proxy)
        if key not in self._chains:
            self._variants[route.name, "again"] += 1
            actions = self.servers.actions
            variant = self._variants[route.name, "again"]
            if waits is not None:
                actions.retries.common()
                self._chains[key], more = actions.queues.chain(location, route, proxy, variant)
                self.named += more
                return replace(location, proxy=self._chains[key])
            split = actions.chooser.split_of(route)
            started = replace(location, gate=gate)
            self._chains[key], more = actions.retries.chain(started, route, route.action, proxy, variant, split, detour)
            self.named += more
        return replace(location, proxy=self._chains[key])

    def _next(self, route: str, what: str) -> Atom:
        """A name for a further location of a route in this block."""
        self._variants[route, what] += 1
        count = self._variants[route, what]
        return named(route, f"{what}{count}" if count > 1 else what)

    def _with_tunnel(self, location: Location, route: Route, gate: Gate | None) -> Location:
        """Tunnels have a location of their own where a time other than theirs rules the rest."""
        proxy = location.proxy
        if proxy is None or not isinstance(route.action, Forward):
            return location
        wanted = route.action.timeouts
        if wanted.response == wanted.idle:
            return location
        key = (route.name, proxy)
        if key not in self._tunnels:
            name = self._next(route.name, "tunnel")
            idle = times(replace(wanted, response=wanted.idle))
            self._tunnels[key] = name
            tunnel = Location(location.origin, name=name, proxy=replace(proxy, times=idle), gate=gate)
            self.named.append(self._with_retries(tunnel, route, gate))
        # Its error_page for the tunnel replaces all that it would inherit.
        on_failure = proxy.on_failure or _FAILED
        return replace(location, proxy=replace(proxy, tunnel=self._tunnels[key], on_failure=on_failure))

    def _body(self, rule: Rule) -> Body:
        return self.servers.body(rule, self.listener, self.standard)

    def _named(self, rule: Rule) -> Atom:
        """The named location for a rule; rules of one route share it unless their bodies differ."""
        body = self._body(rule)
        key = (rule.route, body)
        if key not in self._names:
            self._variants[rule.route, ""] += 1
            count = self._variants[rule.route, ""]
            self._names[key] = named(rule.route, str(count) if count > 1 else "")
            self.named.append(self._finished(Location(Atom(rule.field), name=self._names[key]), body, rule))
        return self._names[key]


def not_found() -> Answer:
    return Answer(404, text("Not Found\n"))


def _with_body(location: Location, body: Body) -> Location:
    return replace(location, proxy=body) if isinstance(body, Proxy) else replace(location, answer=body)


def _place_in_file(location: Location) -> tuple[str, bool]:
    """By path, a path alone before what lies below it."""
    text = location.path or location.below
    return (text.text if text else "", location.below is not None)


def _map(name: str, candidates: tuple[Candidate, ...], goals: tuple[str, ...], values: Values, target: str) -> Map:
    """First match wins: nginx tries the regexes of a map in their order."""
    origin = Atom(candidates[0].rule.field)
    tests = [(c, g) for c, g in zip(candidates, goals, strict=True) if not c.unconditional]
    default = Atom(goals[-1]) if len(tests) < len(candidates) else _NOT_FOUND
    keys = inputs((c for c, _ in tests), values, target)
    entries: list[Entry] = []
    if keys == (METHOD,):
        taken: set[str] = set()
        for candidate, goal in tests:
            for method in candidate.rule.match.methods:
                if method not in taken:
                    taken.add(method)
                    entries.append(Entry(Atom(method), Atom(goal)))
        return Map(origin, text(inline(METHOD)), Atom(f"${name}"), default, tuple(entries))
    entries = [Entry(Literal(pattern(c, keys, values, target), "regex"), Atom(goal)) for c, goal in tests]
    source = text(*(part for key in keys for part in (inline(key), "\n")))
    return Map(origin, source, Atom(f"${name}"), default, tuple(entries))
