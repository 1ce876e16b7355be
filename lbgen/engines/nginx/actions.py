"""Route actions as bodies of locations, with the maps they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec import Struct

from lbgen.engines.nginx import access_log, paths, queues
from lbgen.engines.nginx.compression import CompressionMaps, response_directives
from lbgen.engines.nginx.connection_options import ClientHeaders
from lbgen.engines.nginx.cors import HIDDEN, CorsMaps
from lbgen.engines.nginx.headers import apply_edits, header_directives, header_name, response_headers
from lbgen.engines.nginx.limits import RouteGuards, has_limits, is_guarded
from lbgen.engines.nginx.local_replies import ADDRESS_STATUSES
from lbgen.engines.nginx.matching import PATH
from lbgen.engines.nginx.mirrors import MirrorLocations
from lbgen.engines.nginx.names import inline, inline_upstream, named_location, reference
from lbgen.engines.nginx.pool_selection import PoolSelection
from lbgen.engines.nginx.request_values import RequestValues
from lbgen.engines.nginx.retries import RetryChains
from lbgen.engines.nginx.rewrites import Rewrites
from lbgen.engines.nginx.split_shares import share_names
from lbgen.engines.nginx.sticky import StickyCookies
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.timeouts import own_times, proxy_times
from lbgen.engines.nginx.upstream_protocols import PROXY, upstream_protocol
from lbgen.engines.nginx.upstreams import has_separate_backups, may_be_empty
from lbgen.engines.nginx.view import Answer, Entry, Header, Line, Location, Map, Proxy, Times
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Redirect, Respond
from lbgen.plan.policy import Buffering
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lbgen.engines.nginx.headers import HeaderLines, Trust
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.support import Version
    from lbgen.engines.nginx.upstream_protocols import UpstreamProtocol
    from lbgen.engines.nginx.view import Guard, Text
    from lbgen.plan.guarantees import Guarantees
    from lbgen.plan.model import Listener, Plan, Pool, Route, Rule, Target

Body = Proxy | Answer


class RouteFacts(Struct, frozen=True):
    """What all locations of a route on a listener have in common."""

    name: Atom
    log_variables: tuple[Line, ...]  # of the access log and of queues
    at_once: bool  # they forward without checks, and continue in no other location


class RouteActions:
    """Builds the bodies of locations; collects what belongs to the http block in `maps` and in its helpers."""

    def __init__(
        self,
        names: Names,
        texts: Texts,
        plan: Plan,
        kept: Guarantees,
        default_times: Times,
        version: Version,
        trust: Mapping[str, Trust],
    ) -> None:
        pools = {pool.name: pool for pool in plan.pools}
        self.version = version
        self.kept = kept
        # Requests go on without the fields that Connection names.
        self.filters = kept.connection_options and version.scripts
        self.names = names
        self.texts = texts
        self.pools = pools
        self.default_times = default_times
        self.maps: list[Map] = []
        self.rewrites = Rewrites(names, texts, self.maps)
        self.values = RequestValues(names, {name: each.name("trusted") for name, each in trust.items()})
        self.guards = RouteGuards(names, plan, self.values)
        self.retries = RetryChains(names, pools, filters=self.filters)
        self.client_headers = ClientHeaders(filters=self.filters)
        self.queues = queues.QueueLocations(names, filters=self.filters)
        self.sticky_cookies = StickyCookies(names, texts, self.values, self.retries, version)
        self.pool_selection = PoolSelection(names, pools, self.maps, self.sticky_cookies, version)
        self.mirrors = MirrorLocations(names, pools, version)
        self.cors = CorsMaps(names, texts)
        self.compression = CompressionMaps(names)
        self.logged_routes = access_log.LoggedRoutes(plan, kept)
        self._facts: dict[tuple[str, str], RouteFacts] = {}
        self._logged_pools: dict[Atom, Text] = {}
        self._headers: dict[tuple[str, str], tuple[Header, ...]] = {}
        self._plain: dict[tuple[object, ...], Proxy] = {}
        self._has_queues = version.upstreams and any(map(queues.has_queue, plan.pools))

    def build_body(self, rule: Rule, route: Route, listener: Listener, standard: HeaderLines) -> Body:
        """The body of a location for requests that `rule` matches; `standard` are the headers of the listener."""
        match route.action:
            case Forward():
                return self._proxy(rule, route, route.action, listener, standard)
            case Redirect():
                return self._redirect(rule, route, route.action, listener)
            case Respond():
                return self._respond(route, route.action)
            case _:
                assert_never(route.action)

    def answer_locations(self, route: Route, listener: Listener) -> list[Location]:
        """The named locations with answers of nginx's own to which the bodies of this route refer."""
        if self.facts(route, listener).at_once and not (route.response_headers or route.cors):
            return []  # only the answer of the server block
        return list(self._answer_locations(route))

    def _answer_locations(self, route: Route) -> Iterator[Location]:
        origin = Atom(route.field)
        action = route.action
        if self.kept.answers and self.failure_location(route) and (isinstance(action, Forward) or has_limits(route)):
            yield Location(origin, name=named_location(route.name, "failed"), answer=self._failure(route))
        if isinstance(action, Forward) and (
            action.retries or self.pool_selection.fallback_upstream(route, action) or self.queued_pool(route)
        ):
            yield Location(
                origin, name=named_location(route.name, "final"), answer=self._failure(route, after_retries=True)
            )
        if isinstance(action, Respond) and action.status in ADDRESS_STATUSES:
            add, content_type = self._response_headers(route, action.headers)
            answer = Answer(200, self.texts.body(action.body), _default_type(content_type), add)
            yield Location(origin, name=named_location(route.name, "answer"), answer=answer)

    def _failure(self, route: Route, *, after_retries: bool = False) -> Answer:
        """The answer when no endpoint responds, or when a limit rejects the request."""
        add, content_type = self._response_headers(route, (("content-type", "text/plain"),))
        return Answer(
            502,
            text(),
            _default_type(content_type),
            add,
            failure_text=not after_retries,
            after_retries=after_retries,
            may_lack_endpoints=isinstance(route.action, Forward) and self._may_lack_endpoints(route.action),
        )

    def failure_location(self, route: Route) -> Atom | None:
        """The location with the route's own failure answers; None = that of the server block."""
        return named_location(route.name, "failed") if route.response_headers or route.cors else None

    def _response_headers(
        self, route: Route, start: Iterable[tuple[str, str]] = ()
    ) -> tuple[tuple[Header, ...], str | None]:
        """The headers of an answer of nginx's own, and its content-type."""
        if route.cors is None:
            if not (start or route.response_headers):
                return (), None
            return response_headers(start, route.response_headers, self.texts)
        start = [pair for pair in start if pair[0] not in HIDDEN]
        return response_headers(start, route.response_headers, self.texts, self.cors.headers(route, route.cors))

    def facts(self, route: Route, listener: Listener) -> RouteFacts:
        """What the locations of a route on a listener have in common."""
        found = self._facts.get((route.name, listener.name))
        if found is None:
            at_once = self._forwards_at_once(route, listener)
            log = self.logged_routes.add(listener, route.name, self._logged_pool(route), at_once=at_once)
            queue = queues.route_directives(self.queued_pool(route)) if self._has_queues else ()
            found = self._facts[route.name, listener.name] = RouteFacts(Atom(route.name), (*log, *queue), at_once)
        return found

    def _logged_pool(self, route: Route) -> Text | None:
        if not isinstance(route.action, Forward):
            return None
        upstream = self.pool_selection.upstream(route, route.action)
        if upstream not in self._logged_pools:
            self._logged_pools[upstream] = text(inline_upstream(upstream))
        return self._logged_pools[upstream]

    def queued_pool(self, route: Route) -> Pool | None:
        """The pool that requests of the route may wait for."""
        return queues.queued_pool(self.pools, route) if self._has_queues else None

    def guard(self, route: Route, listener: Listener) -> Guard | None:
        """The checks and limits before the route's action."""
        if not is_guarded(route):
            return None
        return self.guards.guard(route, listener, self._response_headers(route)[0])

    def plain_pool(self, route: Route) -> str | None:
        """The pool of a route that forwards by default settings and changes nothing, else None."""
        action = route.action
        if not isinstance(action, Forward) or action.rewrite or route.request_headers or route.response_headers:
            return None
        if any(self.pools[t.pool].sticky or has_separate_backups(self.pools[t.pool]) for t in action.targets):
            return None
        if route.compression or action.mirrors or is_guarded(route) or action.retries or self.queued_pool(route):
            return None
        protocol = self.protocol(action)
        if protocol.module != PROXY or protocol.scheme != "http" or protocol.lines or action.buffering != Buffering():
            return None
        targets = [t for t in action.targets if t.weight]
        if len(targets) != 1 or targets[0].request_headers or proxy_times(action.timeouts) != self.default_times:
            return None
        if action.timeouts.response != action.timeouts.idle:
            return None
        return targets[0].pool

    def _forwards_at_once(self, route: Route, listener: Listener) -> bool:
        """Whether the location of the route forwards without checks, and never continues in another location."""
        action = route.action
        if not isinstance(action, Forward) or action.mirrors or action.retries or self.queued_pool(route):
            return False
        if self.guard(route, listener) is not None or action.timeouts.response != action.timeouts.idle:
            return False
        return not (self.pool_selection.routes_by_target(route) or self.pool_selection.fallback_upstream(route, action))

    def _proxy(self, rule: Rule, route: Route, action: Forward, listener: Listener, standard: HeaderLines) -> Proxy:
        """The body of a route that forwards; those that change nothing and have one target share that of its pool."""
        (first, *others), edits = action.targets, (route.request_headers, route.response_headers)
        changes = any(edits) or route.cors or route.compression or action.rewrite or first.request_headers
        if changes or others or not first.weight or self.pools[first.pool].sticky is not None:
            return self._build_proxy(rule, route, action, listener, standard)
        key = (first.pool, action.timeouts, action.buffering, listener.name)
        if key not in self._plain:
            self._plain[key] = self._build_proxy(rule, route, action, listener, standard)
        return self._plain[key]

    def _build_proxy(
        self, rule: Rule, route: Route, action: Forward, listener: Listener, standard: HeaderLines
    ) -> Proxy:
        times = proxy_times(action.timeouts)
        hide = {name: None for name, _ in route.response_headers.set} | dict.fromkeys(route.response_headers.remove)
        hide |= dict.fromkeys(HIDDEN if route.cors else ())
        add, content_type = self._response_headers(route)
        if content_type is not None:
            add = (*add, Header(header_name("content-type"), self.texts.of(content_type)))
        upstream = self.pool_selection.upstream(route, action)
        add = (*add, *self.pool_selection.set_cookie_headers(route, action))
        if route.compression is not None:
            add = (*add, Header(header_name("vary"), self.compression.vary(route, route.compression)))
        protocol = self.protocol(action)
        hidden = [header_name(name) for name in hide]
        return Proxy(
            module=Atom(protocol.module),
            scheme=Atom(protocol.scheme),
            lines=(*protocol.lines, *response_directives(route, action)),
            upstream=upstream,
            target=self._target(rule, action, listener),
            headers=self._request_headers(route, action, listener, standard),
            times=own_times(times, self.default_times),
            hide=tuple(name for name in hidden if all(x.name != name for x in add)),
            hides_hop_by_hop=bool(hidden) and protocol.module == PROXY,
            add=_replacing(add, hidden),
            failure_to=self.failure_location(route),
            may_lack_endpoints=self._may_lack_endpoints(action),
            request_buffered=action.buffering.request,
        )

    def protocol(self, action: Forward) -> UpstreamProtocol:
        """The protocol of the endpoints, the same for all targets."""
        return upstream_protocol(self.pools[next(t.pool for t in action.targets if t.weight)], self.version)

    def _may_lack_endpoints(self, action: Forward) -> bool:
        return any(may_be_empty(self.pools[t.pool]) for t in self.pool_selection.reachable_targets(action))

    def _request_headers(
        self, route: Route, action: Forward, listener: Listener, standard: HeaderLines
    ) -> tuple[Header, ...]:
        """All request headers, or none when those of the listener suffice: nginx inherits all or none."""
        host = action.rewrite.host if action.rewrite else None
        targets = self.pool_selection.reachable_targets(action)
        if not (host or route.request_headers or any(t.request_headers for t in targets)):
            return ()
        key = (route.name, listener.name)
        if key not in self._headers:
            base = standard | {"host": (self.texts.of(host),)} if host else standard
            base = apply_edits(base, route.request_headers, self.texts, self.client_headers)
            each = [apply_edits(base, t.request_headers, self.texts, self.client_headers) for t in targets]
            lines = self._by_target(route, targets, each) if len(each) > 1 else each[0]
            self._headers[key] = header_directives(lines, self.protocol(action).module, filters=self.filters)
        return self._headers[key]

    def _by_target(self, route: Route, targets: list[Target], each: list[HeaderLines]) -> HeaderLines:
        """The headers of all targets in one; where they differ, a map over the split selects the value."""
        out: HeaderLines = {}
        for name in dict.fromkeys(name for lines in each for name in lines):
            values = [lines[name] if name in lines else (text(self.client_headers.variable(name)),) for lines in each]
            if all(value == values[0] for value in values):
                out[name] = values[0]
                continue
            longest = max(map(len, values))
            padded = [(*value, *[EMPTY] * (longest - len(value))) for value in values]
            out[name] = tuple(self._choice(route, targets, name, column) for column in zip(*padded, strict=True))
        return out

    def _choice(self, route: Route, targets: list[Target], header: str, values: tuple[Text, ...]) -> Text:
        name = self.names.variable("header", f"{route.name} {header}")
        entries = tuple(
            Entry(Literal(share, "key"), value) for share, value in zip(share_names(targets), values, strict=True)
        )
        source = text(inline(self.pool_selection.split_variable(route) or ""))
        self.maps.append(Map(Atom(f"{route.field}.forward"), source, reference(name), EMPTY, entries))
        return text(inline(name))

    def _target(self, rule: Rule, action: Forward, listener: Listener) -> Atom | None:
        """The variable with the target that the endpoint gets; None = as sent by the client."""
        rewrite = action.rewrite
        if rewrite is None or (rewrite.path is None and rewrite.prefix is None):
            return self.plain_target(listener)
        target = paths.target_variable(listener)
        if rewrite.path is not None:
            return reference(self.rewrites.with_path(rewrite.path, rule, target))
        return reference(self.rewrites.with_prefix(rewrite.prefix or "/", rule, target, listener.guarantees))

    def plain_target(self, listener: Listener) -> Atom | None:
        """The variable with a target that no rule rewrites; None = as sent by the client."""
        name = paths.target_variable(listener)
        if name == PATH:
            return None
        return reference(name)

    def _redirect(self, rule: Rule, route: Route, action: Redirect, listener: Listener) -> Answer:
        add, _ = self._response_headers(route)
        return Answer(action.status, self.rewrites.redirect(action, rule, listener), add=add)

    def _respond(self, route: Route, action: Respond) -> Answer:
        if action.status in ADDRESS_STATUSES:
            return Answer(action.status, EMPTY, body_at=named_location(route.name, "answer"))
        add, content_type = self._response_headers(route, action.headers)
        return Answer(action.status, self.texts.body(action.body), _default_type(content_type), add)


def _replacing(add: tuple[Header, ...], hidden: list[Atom | Literal]) -> tuple[Header, ...]:
    """`add`, the first of each name with a note that the endpoint's is hidden."""
    names = [x.name for x in add]
    return tuple(replace(x, replaces=x.name in hidden and names.index(x.name) == at) for at, x in enumerate(add))


def _default_type(content_type: str | None) -> Literal | None:
    return None if content_type == "text/plain" else Literal(content_type or "", "word")
