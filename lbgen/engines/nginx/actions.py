"""Route actions as bodies of locations, with the maps they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from msgspec.structs import replace

from lbgen.engines.nginx import access_log, paths
from lbgen.engines.nginx.cors import HIDDEN, CorsMaps
from lbgen.engines.nginx.features import FEATURES
from lbgen.engines.nginx.headers import (
    HeaderLines,
    Trust,
    apply_edits,
    grpc_headers,
    header_directives,
    header_name,
    protocol_headers,
    response_headers,
)
from lbgen.engines.nginx.limits import RouteGuards, is_guarded
from lbgen.engines.nginx.matching import PATH
from lbgen.engines.nginx.mirrors import MirrorLocations
from lbgen.engines.nginx.names import Names, inline, named_location, reference
from lbgen.engines.nginx.pool_selection import PoolSelection, share_names
from lbgen.engines.nginx.request_values import RequestValues, header_variable
from lbgen.engines.nginx.rewrites import Rewrites
from lbgen.engines.nginx.sticky import StickyCookies
from lbgen.engines.nginx.strings import EMPTY, Texts, text
from lbgen.engines.nginx.timeouts import proxy_times
from lbgen.engines.nginx.upstream_protocols import PROXY, UpstreamProtocol, upstream_protocol
from lbgen.engines.nginx.view import Answer, Entry, Guard, Header, HttpForward, Line, Location, Map, Proxy, Text, Times
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Listener, Mode, Plan, Redirect, Respond, Route, Rule, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.engines.nginx.support import Version

Body = Proxy | Answer
ADDRESS_STATUSES = frozenset({301, 302, 303, 307, 308})
"""Statuses for which `return` takes an address, not a text."""


class RouteActions:
    """Builds the bodies of locations; collects what belongs to the http block in `maps` and in its helpers."""

    def __init__(
        self,
        names: Names,
        texts: Texts,
        plan: Plan,
        default_times: Times,
        version: Version,
        trust: Mapping[str, Trust],
    ) -> None:
        pools = {pool.name: pool for pool in plan.pools}
        self.version = version
        self.names = names
        self.texts = texts
        self.pools = pools
        self.default_times = default_times
        self.has_tls = any(x.tls is not None for x in plan.listeners if x.mode is Mode.L7)
        self.maps: list[Map] = []
        self.rewrites = Rewrites(names, texts, self.maps)
        self.values = RequestValues(names, {name: each.name("trusted") for name, each in trust.items()})
        self.guards = RouteGuards(names, plan, self.values)
        self.sticky_cookies = StickyCookies(names, texts, self.values, version)
        self.pool_selection = PoolSelection(names, pools, self.maps, self.sticky_cookies, version)
        self.mirrors = MirrorLocations(names, pools, version)
        self.cors = CorsMaps(names, texts)
        self.logged_routes = access_log.LoggedRoutes()
        self._headers: dict[tuple[str, str], tuple[Header, ...]] = {}

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

    def answer_location(self, route: Route) -> Location | None:
        """The named location with the body of an answer whose status takes an address."""
        action = route.action
        if not isinstance(action, Respond) or action.status not in ADDRESS_STATUSES:
            return None
        add, content_type = self._response_headers(route, action.headers)
        answer = Answer(200, self.texts.body(action.body), _default_type(content_type), add)
        return Location(Atom(route.field), name=named_location(route.name, "answer"), answer=answer)

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

    def log_variables(self, route: Route, listener: Listener) -> tuple[Line, ...]:
        """The variables of the access log in locations of a route."""
        upstream = self.pool_selection.upstream(route, route.action) if isinstance(route.action, Forward) else None
        return self.logged_routes.add(listener, route.name, upstream)

    def guard(self, route: Route, listener: Listener, *, named: bool) -> Guard | None:
        """The checks and limits before the route's action, in a location with a name or a path."""
        if not is_guarded(route):
            return None
        return self.guards.guard(route, listener, self._response_headers(route)[0], named=named)

    def _proxy(self, rule: Rule, route: Route, action: Forward, listener: Listener, standard: HeaderLines) -> Proxy:
        times = proxy_times(action.timeouts)
        hide = {name: None for name, _ in route.response_headers.set} | dict.fromkeys(route.response_headers.remove)
        hide |= dict.fromkeys(HIDDEN if route.cors else ())
        add, content_type = self._response_headers(route)
        if content_type is not None:
            add = (*add, Header(header_name("content-type"), self.texts.of(content_type)))
        upstream = self.pool_selection.upstream(route, action)
        add = (*add, *self.pool_selection.set_cookie_headers(route, action))
        protocol = self.protocol(action)
        at = HttpForward(route, action, protocol.module, buffers=not self.has_tls)
        hidden = [header_name(name) for name in hide]
        return Proxy(
            module=Atom(protocol.module),
            scheme=Atom(protocol.scheme),
            lines=(*protocol.lines, *(line for each in FEATURES if each.forward for line in each.forward(at))),
            upstream=upstream,
            target=self._target(rule, action, listener),
            headers=self._request_headers(route, action, listener, standard),
            times=None if times == self.default_times else times,
            hide=(*(name for name in hidden if all(x.name != name for x in add)), *_inherited(protocol, hidden)),
            add=_replacing(add, hidden),
        )

    def protocol(self, action: Forward) -> UpstreamProtocol:
        """The protocol of the endpoints, the same for all targets."""
        return upstream_protocol(self.pools[next(t.pool for t in action.targets if t.weight)], self.version)

    def _request_headers(
        self, route: Route, action: Forward, listener: Listener, standard: HeaderLines
    ) -> tuple[Header, ...]:
        """All request headers, or none when those of the listener suffice: nginx inherits all or none."""
        host = action.rewrite.host if action.rewrite else None
        targets = self.pool_selection.reachable_targets(action)
        protocol = self.protocol(action)
        if not (protocol.http2 or host or route.request_headers or any(t.request_headers for t in targets)):
            return ()
        key = (route.name, listener.name)
        if key not in self._headers:
            base = standard | {"host": (self.texts.of(host),)} if host else standard
            base = apply_edits(base, route.request_headers, self.texts)
            each = [apply_edits(base, t.request_headers, self.texts) for t in targets]
            lines = self._by_target(route, targets, each) if len(each) > 1 else each[0]
            headers = header_directives(lines, protocol_headers(protocol))
            self._headers[key] = headers if protocol.module == PROXY else grpc_headers(headers)
        return self._headers[key]

    def _by_target(self, route: Route, targets: list[Target], each: list[HeaderLines]) -> HeaderLines:
        """The headers of all targets in one; where they differ, a map over the split selects the value."""
        out: HeaderLines = {}
        for name in dict.fromkeys(name for lines in each for name in lines):
            values = [lines[name] if name in lines else (text(inline(header_variable(name))),) for lines in each]
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
        return reference(self.rewrites.with_prefix(rewrite.prefix or "/", rule, target))

    def plain_target(self, listener: Listener) -> Atom | None:
        """The variable with a target that no rule rewrites; None = as sent by the client."""
        name = paths.target_variable(listener)
        return None if name == PATH else reference(name)

    def _redirect(self, rule: Rule, route: Route, action: Redirect, listener: Listener) -> Answer:
        add, _ = self._response_headers(route)
        return Answer(action.status, self.rewrites.redirect(action, rule, listener), add=add)

    def _respond(self, route: Route, action: Respond) -> Answer:
        if action.status in ADDRESS_STATUSES:
            return Answer(action.status, EMPTY, body_at=named_location(route.name, "answer"))
        add, content_type = self._response_headers(route, action.headers)
        return Answer(action.status, self.texts.body(action.body), _default_type(content_type), add)


def _inherited(protocol: UpstreamProtocol, hidden: list[Atom | Literal]) -> tuple[Atom, ...]:
    """What the http block hides and a location that hides more has to repeat."""
    return (Atom("Proxy-Connection"),) if hidden and protocol.module == PROXY else ()


def _replacing(add: tuple[Header, ...], hidden: list[Atom | Literal]) -> tuple[Header, ...]:
    """`add`, the first of each name with a note that the endpoint's is hidden."""
    names = [x.name for x in add]
    return tuple(replace(x, replaces=x.name in hidden and names.index(x.name) == at) for at, x in enumerate(add))


def _default_type(content_type: str | None) -> Literal | None:
    return None if content_type == "text/plain" else Literal(content_type or "", "word")
