"""What a route does with a request -> the body of a location, with the maps and splits it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.nginx import access_log, paths
from lbgen.engines.nginx.compression import Compressions
from lbgen.engines.nginx.compression import lines as gzip
from lbgen.engines.nginx.connection_options import Sent
from lbgen.engines.nginx.cors import HIDDEN, CorsMaps
from lbgen.engines.nginx.headers import edited, printed, response_lines, shown
from lbgen.engines.nginx.health_checks import may_be_empty
from lbgen.engines.nginx.limits import Gates, gated, limited
from lbgen.engines.nginx.matching import PATH
from lbgen.engines.nginx.mirrors import Mirrors
from lbgen.engines.nginx.names import inline, named, reference
from lbgen.engines.nginx.pool_selection import Chooser, inlined
from lbgen.engines.nginx.queues import Queues, queued_pool, route_lines
from lbgen.engines.nginx.request_values import Values
from lbgen.engines.nginx.retries import Retries, separate_backups
from lbgen.engines.nginx.rewrites import Targets
from lbgen.engines.nginx.split_shares import share_names
from lbgen.engines.nginx.sticky import Stickies
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.timeouts import times
from lbgen.engines.nginx.upstream_protocols import PROXY, transport
from lbgen.engines.nginx.view import NONE, Answer, Entry, Header, Line, Location, Map, Proxy, Times
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward, Redirect, Respond
from lbgen.plan.policy import Buffering

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.engines.nginx.headers import Lines
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.upstream_protocols import Transport
    from lbgen.engines.nginx.view import Gate, Text
    from lbgen.plan.model import Listener, Plan, Pool, Route, Rule, Target
    from lbgen.plan.policy import Compression

_PORTS = {"http": 80, "https": 443}
_ADDRESS_STATUSES = frozenset({301, 302, 303, 307, 308})  # `return` reads what follows as an address
Body = Proxy | Answer


class Actions:
    """Makes bodies of locations; what belongs to the http level gathers in `maps` and with the helpers."""

    def __init__(self, names: Names, texts: Texts, plan: Plan, usual: Times, *, old: bool) -> None:
        pools = {pool.name: pool for pool in plan.pools}
        self.old = old
        self.names = names
        self.texts = texts
        self.pools = pools
        self.usual = usual
        self.maps: list[Map] = []
        self.rewrites = False
        self.targets = Targets(names, texts, self.maps)
        self.own_host: set[str] = set()
        self._headers: dict[tuple[str, str], tuple[Header, ...]] = {}
        self.gates = Gates(names, plan.routes)
        self.retries = Retries(names, pools, old=old)
        self.sent = Sent(old=old)
        self.queues = Queues(names)
        self.values = Values(names)
        self.stickies = Stickies(names, texts, self.values, self.retries, old=old)
        self.chooser = Chooser(names, pools, self.maps, self.stickies, old=old)
        self.mirrors = Mirrors(names, pools, old=old)
        self.cors = CorsMaps(names, texts)
        self.compressions = Compressions(names)

    def body(self, rule: Rule, route: Route, listener: Listener, standard: Lines) -> Body:
        """What a location does once `rule` has taken the request."""
        match route.action:
            case Forward():
                return self._proxy(rule, route, route.action, listener, standard)
            case Redirect():
                return self._redirect(rule, route, route.action, listener)
            case Respond():
                return self._respond(route, route.action)
            case _:
                assert_never(route.action)

    def helpers(self, route: Route) -> Iterator[Location]:
        """Named locations that the bodies of this route refer to."""
        origin = Atom(route.field)
        action = route.action
        if self.failed(route) and (isinstance(action, Forward) or limited(route)):
            yield Location(origin, name=named(route.name, "failed"), answer=self._failure(route))
        if isinstance(action, Forward) and (
            action.retries or self.chooser.detour(route, action) or self.queued_pool(route)
        ):
            yield Location(origin, name=named(route.name, "final"), answer=self._failure(route, final=True))
        if isinstance(action, Respond) and action.status in _ADDRESS_STATUSES:
            add, kind = self._lines(route, action.headers)
            answer = Answer(200, self.texts.body(action.body), _content_type(kind), add)
            yield Location(origin, name=named(route.name, "answer"), answer=answer)

    def _failure(self, route: Route, *, final: bool = False) -> Answer:
        """What clients of the route are told when no endpoint answers, or when nginx lets nobody pass."""
        add, kind = self._lines(route, (("content-type", "text/plain"),))
        names = isinstance(route.action, Forward) and self._has_names(route.action)
        return Answer(502, text(), _content_type(kind), add, failure=not final, final=final, names=names)

    def failed(self, route: Route) -> Atom | None:
        """Where the answers are that nginx makes for this route when it fails; None = the server's own will do."""
        return named(route.name, "failed") if route.response_headers or route.cors else None

    def _lines(self, route: Route, start: Iterable[tuple[str, str]] = ()) -> tuple[tuple[Header, ...], str | None]:
        """The headers of an answer of the route that nginx makes, and its media type."""
        if route.cors is None:
            return response_lines(start, route.response_headers, self.texts)
        start = [pair for pair in start if pair[0] not in HIDDEN]
        return response_lines(start, route.response_headers, self.texts, self.cors.headers(route, route.cors))

    def logged(self, route: Route, listener: Listener) -> tuple[Line, ...]:
        """What the access log is told about requests of the route."""
        pool = text(inlined(self.chooser.upstream(route, route.action))) if isinstance(route.action, Forward) else EMPTY
        return (*access_log.route_lines(listener, route, pool), *route_lines(self.queued_pool(route)))

    def queued_pool(self, route: Route) -> Pool | None:
        """The pool that requests of the route wait for, if they may."""
        return None if self.old else queued_pool(self.pools, route)

    def gate(self, route: Route, listener: Listener) -> Gate | None:
        """What requests for this route must pass first."""
        return self.gates.of(route, listener, self._lines(route)[0])

    def simple_pool(self, route: Route) -> str | None:
        """The pool of a route that forwards as usual and changes nothing, else None."""
        action = route.action
        if not isinstance(action, Forward) or action.rewrite or route.request_headers or route.response_headers:
            return None
        if any(self.pools[t.pool].sticky or separate_backups(self.pools[t.pool]) for t in action.targets):
            return None
        if route.compression or action.mirrors or gated(route) or action.retries or self.queued_pool(route):
            return None
        way = self.transport(action)
        if way.kind != PROXY or way.scheme != "http" or way.lines or action.buffering != Buffering():
            return None
        targets = [t for t in action.targets if t.weight]
        if len(targets) != 1 or targets[0].request_headers or times(action.timeouts) != self.usual:
            return None
        if action.timeouts.response != action.timeouts.idle:
            return None
        return targets[0].pool

    def _proxy(self, rule: Rule, route: Route, action: Forward, listener: Listener, standard: Lines) -> Proxy:
        wanted = times(action.timeouts)
        hide = {name: None for name, _ in route.response_headers.set} | dict.fromkeys(route.response_headers.remove)
        hide |= dict.fromkeys(HIDDEN if route.cors else ())
        add, kind = self._lines(route)
        if kind is not None:
            add = (*add, Header(shown("content-type"), self.texts.of(kind)))
        upstream = self.chooser.upstream(route, action)
        add = (*add, *self.chooser.cookies(route, action))
        way = self.transport(action)
        return Proxy(
            kind=Atom(way.kind),
            scheme=Atom(way.scheme),
            lines=(*way.lines, *self._handling(route, action)),
            upstream=upstream,
            target=self._target(rule, action, listener),
            headers=self._request_headers(route, action, listener, standard),
            times=None if wanted == self.usual else wanted,
            hide=tuple(shown(name) for name in hide),
            add=add if route.compression is None else (*add, self._compressed(route, route.compression)),
            on_failure=self.failed(route),
            names=self._has_names(action),
            buffered=action.buffering.request,
        )

    def _compressed(self, route: Route, wanted: Compression) -> Header:
        return Header(shown("vary"), self.compressions.vary(route, wanted))

    def _handling(self, route: Route, action: Forward) -> Iterator[Line]:
        """How bodies are handled on their way."""
        if action.buffering.response:
            yield Line(Atom("proxy_buffering"), (Atom("on"),))
        if route.compression is not None:
            yield from gzip(route.compression)

    def transport(self, action: Forward) -> Transport:
        """How the endpoints are spoken to; that of all targets is the same."""
        return transport(self.pools[next(t.pool for t in action.targets if t.weight)], old=self.old)

    def _has_names(self, action: Forward) -> bool:
        return any(may_be_empty(self.pools[t.pool]) for t in self.chooser.choices(action))

    def _request_headers(
        self, route: Route, action: Forward, listener: Listener, standard: Lines
    ) -> tuple[Header, ...]:
        """All request headers, or none when the listener's own will do: nginx inherits all of them or none."""
        host = action.rewrite.host if action.rewrite else None
        targets = self.chooser.choices(action)
        if not (host or route.request_headers or any(t.request_headers for t in targets)):
            return ()
        key = (route.name, listener.name)
        if key not in self._headers:
            base = standard | {"host": (self.texts.of(host),)} if host else standard
            base = edited(base, route.request_headers, self.texts, self.sent)
            each = [edited(base, t.request_headers, self.texts, self.sent) for t in targets]
            lines = self._by_target(route, targets, each) if len(each) > 1 else each[0]
            self._headers[key] = printed(lines, self.transport(action).kind)
        return self._headers[key]

    def _by_target(self, route: Route, targets: list[Target], each: list[Lines]) -> Lines:
        """One set of lines for all targets; where they differ a map on the split chooses."""
        out: Lines = {}
        for name in dict.fromkeys(name for lines in each for name in lines):
            found = [lines[name] if name in lines else (text(self.sent(name)),) for lines in each]
            if all(values == found[0] for values in found):
                out[name] = found[0]
                continue
            longest = max(map(len, found))
            padded = [(*values, *[EMPTY] * (longest - len(values))) for values in found]
            out[name] = tuple(self._choice(route, targets, name, column) for column in zip(*padded, strict=True))
        return out

    def _choice(self, route: Route, targets: list[Target], header: str, values: tuple[Text, ...]) -> Text:
        name = self.names.variable("header", f"{route.name} {header}")
        entries = tuple(
            Entry(Literal(share, "key"), value) for share, value in zip(share_names(targets), values, strict=True)
        )
        source = text(inline(self.chooser.split_of(route) or ""))
        self.maps.append(Map(Atom(f"{route.field}.forward"), source, Atom(f"${name}"), EMPTY, entries))
        return text(inline(name))

    def _target(self, rule: Rule, action: Forward, listener: Listener) -> Atom | None:
        """The variable with the target that the endpoint sees; None = as the client sent it."""
        rewrite = action.rewrite
        if rewrite is None or (rewrite.path is None and rewrite.prefix is None):
            return self.plain_target(listener)
        self.rewrites = True
        sent = paths.target(listener)
        if rewrite.path is not None:
            return reference(self.targets.with_path(rewrite.path, rule, sent))
        return reference(self.targets.with_prefix(rewrite.prefix or "/", rule, sent))

    def plain_target(self, listener: Listener) -> Atom | None:
        """What endpoints see of a target that no rule changes; None = as it came."""
        name = paths.target(listener)
        if name == PATH:
            return None
        self.rewrites = True
        return reference(name)

    def _redirect(self, rule: Rule, route: Route, action: Redirect, listener: Listener) -> Answer:
        scheme = action.scheme or listener.scheme
        default = _PORTS[scheme]
        port = action.port or (default if action.scheme else listener.client_port)
        host: str | Atom = action.host or inline(self._own_host(listener))
        authority: list[str | Atom] = [f"{scheme}://", host, "" if port == default else f":{port}"]
        target = sent = paths.target(listener)
        if action.path is not None:
            target = self.targets.with_path(action.path, rule, sent)
        elif action.prefix is not None:
            target = self.targets.with_prefix(action.prefix, rule, sent)
        add, _ = self._lines(route)
        return Answer(action.status, self.texts.of(*authority, inline(target)), add=add)

    def _own_host(self, listener: Listener) -> str:
        """The host of the request, for a request without one the listener's address."""
        address = f"[{listener.address}]" if ":" in listener.address else listener.address
        name = f"own_host_{address.translate({ord(c): '_' for c in '[].:'})}"
        if name not in self.own_host:
            self.own_host.add(name)
            entry = Entry(Literal("", "key"), text(address))
            self.maps.append(Map(NONE, text(inline("http_host")), Atom(f"${name}"), text(inline("host")), (entry,)))
        return name

    def _respond(self, route: Route, action: Respond) -> Answer:
        if action.status in _ADDRESS_STATUSES:
            return Answer(action.status, EMPTY, via=named(route.name, "answer"))
        add, kind = self._lines(route, action.headers)
        return Answer(action.status, self.texts.body(action.body), _content_type(kind), add)


def _content_type(kind: str | None) -> Literal | None:
    return None if kind == "text/plain" else Literal(kind or "", "word")
