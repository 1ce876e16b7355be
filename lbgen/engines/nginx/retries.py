"""Retries as chains of named locations, each of which sends the request to one endpoint.

nginx's own retries do not tell a refused connection from a reset one, never try an endpoint twice and do not count a
broken idle connection as a try. So each try is a location of its own, whose `error_page` continues in the location that
a map selects by cause, method and number of tries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, inline_upstream, named_location, reference
from lbgen.engines.nginx.number_regex import above
from lbgen.engines.nginx.strings import EMPTY, directive, text, variables
from lbgen.engines.nginx.upstreams import backup_upstream, has_separate_backups, single_upstream
from lbgen.engines.nginx.view import NONE, Answer, BodyReader, Entry, Line, Location, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.policy import IDEMPOTENT, REPLAYED_BODY, Retries, RetryCause
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Proxy, Text
    from lbgen.plan.model import Endpoint, Forward, Pool, Route

MAX_RETRIES = 7
"""nginx follows ten internal redirects of a request, of which up to three are needed otherwise."""

_CAUSES = {RetryCause.CONNECT_FAILURE: "connect", RetryCause.RESET: "reset", RetryCause.TIMEOUT: "timeout"}
_FALLBACK_ONLY = Retries(1, frozenset(), ())
"""A second try only for requests whose first upstream has no usable endpoint."""
# The buffer holds chunked bodies with their framing, so it exceeds the limit; what spills to a file counts as long.
_BODY_BUFFER = directive("client_body_buffer_size", "32k")
_ONE = "(?:[0-9]+|-)"
_NEXT = "(?:, | : )"


def max_retries(policy: Retries, *, buffered: bool) -> int:
    """The most retries; reading a body of unknown length first takes one more redirect, unless it is `buffered`."""
    return MAX_RETRIES - 1 if policy.statuses and not buffered else MAX_RETRIES


def ring(pool: Pool) -> tuple[Endpoint, ...]:
    """The order of endpoints for retries, backups last. Empty where nginx must choose: for a single endpoint, or where
    the pool's upstream alone has the state of endpoints."""
    serving = [e for e in pool.endpoints if e.weight and not e.backup]
    every = (*serving, *(e for e in pool.endpoints if e.weight and e.backup))
    is_static = pool.active is None and pool.passive is None and all(e.is_ip for e in every)
    return every if is_static and len(every) > 1 else ()


class RetryChains:
    """Builds the chains; collects maps, and in `single_pools` the pools that need an upstream per endpoint."""

    def __init__(self, names: Names, pools: Mapping[str, Pool], *, filters: bool) -> None:
        self.maps: list[Map] = []
        self.single_pools: dict[str, None] = {}
        self._filters = filters
        self._names = names
        self._pools = pools
        self._ring_variables: dict[str, Atom] = {}
        self._retry_upstreams: dict[str, Atom] = {}
        self._next_tries: dict[tuple[str, int], Atom] = {}
        self._added: set[str] = set()  # maps that chains share

    def add_chain(
        self,
        start: Location,
        route: Route,
        action: Forward,
        proxy: Proxy,
        variant: int,
        split: str | None,
        fallback: Atom | None,
    ) -> tuple[Proxy, tuple[Location, ...]]:
        """`proxy` as the first try, and the locations of further ones. `fallback` is the upstream for requests whose
        own has no usable endpoint, None when there is no other."""
        policy = action.retries or _FALLBACK_ONLY
        self.add_common_maps()
        mirrored = bool(proxy.mirrors) and not action.buffering.request  # nginx buffers a long body for the mirror
        streams = action.retries is not None and not action.buffering.request
        repeatable = self._repeatable(short=mirrored, every=policy.all_methods)
        with_body = self._repeatable_with_body(repeatable) if streams else repeatable
        next_try = self._next_try(route, policy, variant, fallback is not None, with_body)
        upstream = self._retry_upstream(route, action, split) or fallback or proxy.upstream
        final = named_location(route.name, "final")
        kept = replace(proxy, lines=(*proxy.lines, _BODY_BUFFER)) if streams else proxy
        tries = [kept, *(replace(proxy, upstream=upstream, tunnel_to=None, mirrors=()) for _ in range(policy.max))]
        locations: list[Location] = []
        first = proxy
        for at, each in enumerate(tries):
            tried = replace(each, next_try=next_try if at < policy.max else final, request_buffered=True)
            if at < policy.max and policy.statuses:
                once = replace(tried, tunnel_to=None)
                tried = replace(tried, retried_statuses=policy.statuses)
                if with_body is not None:
                    name = _name(route, "once", at, variant)
                    condition = with_body if at else repeatable
                    if condition is not None:
                        tried = replace(tried, no_status_retry=name, repeatable=condition)
                    # Limits are applied after this redirect of the first try.
                    guard = start.guard if at == 0 else None
                    locations.append(Location(start.origin, route=start.route, name=name, proxy=once, guard=guard))
            if at > 0:
                locations.append(
                    Location(
                        start.origin,
                        route=start.route,
                        name=_name(route, "again", at, variant),
                        proxy=tried,
                        retry=True,
                    )
                )
                continue
            first = tried
            if streams and tried.retried_statuses:
                first = replace(tried, unknown_length_to=_name(route, "read", at, variant))
                locations += self._read_body(start, route, tried, variant)
            if streams and not mirrored:
                name = _name(route, "long", at, variant)
                first = replace(first, streamed_to=name)
                streamed = replace(proxy, next_try=final, lines=(*proxy.lines, *_native_retries(policy)))
                locations.append(
                    Location(start.origin, route=start.route, name=name, proxy=streamed, guard=start.guard)
                )
        return first, tuple(locations)

    def _repeatable(self, *, short: bool, every: bool) -> Atom | None:
        """The variable that is 1 for requests that may be retried after more than a failed connection: by method unless
        `every` method may, and if `short` by the length of the body. None = always."""
        if not short:
            return None if every else Atom("$repeatable")
        variable = Atom("$short_body" if every else "$repeatable_short")
        if variable.text not in self._added:
            self._added.add(variable.text)
            source = text(inline("long_body")) if every else text(inline("repeatable"), " ", inline("long_body"))
            entry = Entry(Literal("0" if every else "1 0", "key"), Atom("1"))
            self.maps.append(Map(NONE, source, variable, Atom("0"), (entry,)))
        return variable

    def _repeatable_with_body(self, repeatable: Atom | None) -> Atom:
        """The same once nginx has read the body: one of unknown length may be too long."""
        before = repeatable.text.removeprefix("$") if repeatable is not None else ""
        variable = Atom(f"$sent_again_{before}" if before else "$short_chunks")
        if variable.text not in self._added:
            if "$long_chunks" not in self._added:
                self._added.add("$long_chunks")
                self.maps += _body_maps()
            self._added.add(variable.text)
            source = text(inline(before), " ", inline("long_chunks")) if before else text(inline("long_chunks"))
            entry = Entry(Literal("1 0" if before else "0", "key"), Atom("1"))
            self.maps.append(Map(NONE, source, variable, Atom("0"), (entry,)))
        return variable

    def _read_body(self, start: Location, route: Route, first: Proxy, variant: int) -> tuple[Location, ...]:
        """The first try for bodies of unknown length, whose length decides on retries by status. nginx reads a body
        before it mirrors a request, here to a location that drops it; empty_gif then answers 405, and the error page of
        405 is the try."""
        name = self._names.variable("sized", f"{route.name} {variant}")
        goes, sink = _name(route, "sized", 0, variant), Atom(f"/../read/{route.name}/{variant}")
        short = Entry(Literal("0", "key"), self._with_filtered(goes))
        origin = Atom(f"{route.field}.retries")
        once = _name(route, "once", 0, variant)
        self.maps.append(Map(origin, text(inline("long_chunks")), reference(name), once, (short,)))
        reader = BodyReader(reference(name), sink, first.failure_to or Atom("@failed"))
        sized = replace(first, no_status_retry=None, repeatable=None, tunnel_to=None)
        internal = (directive("internal"), *start.log_variables)
        return (
            Location(
                start.origin,
                route=start.route,
                name=_name(route, "read", 0, variant),
                body_reader=reader,
                guard=start.guard,
            ),
            Location(
                start.origin,
                route=start.route,
                name=Atom(f"= {sink.text}"),
                answer=Answer(204, EMPTY),
                log_variables=internal,
            ),
            Location(start.origin, route=start.route, name=goes, proxy=sized, guard=start.guard, retry=True),
        )

    def _next_try(
        self, route: Route, policy: Retries, variant: int, has_fallback: bool, repeatable: Atom | None
    ) -> Atom:
        """The variable with the location after a failed try."""
        key = (route.name, variant)
        if key not in self._next_tries:
            name = self._names.variable("again", route.name)
            entries = tuple(
                Entry(
                    Literal(f"^(?:{'|'.join(conditions)})$", "regex"),
                    self._with_filtered(_name(route, "again", at, variant)),
                )
                for at in range(1, policy.max + 1)
                if (conditions := _conditions(policy, at, has_fallback, always=repeatable is None))
            )
            may = "repeatable" if repeatable is None else repeatable.text.removeprefix("$")
            source = variables(("cause", may, "tries", "upstream_status"), " ")
            final = named_location(route.name, "final")
            origin = Atom(f"{route.field}.retries")
            self.maps.append(Map(origin, source, reference(name), final, entries, volatile=True))
            self._next_tries[key] = reference(name)
        return self._next_tries[key]

    def _with_filtered(self, name: Atom) -> Text | Atom:
        """A location, or its filtered form for some requests; see `connection_options.py`."""
        return text(name.text, inline("nominates")) if self._filters else name

    def _retry_upstream(self, route: Route, action: Forward, split: str | None) -> Atom | None:
        """The upstream of a retry; None = that of the first try."""
        pools = [self._pools[t.pool] for t in action.targets if t.weight]
        if not any(ring(pool) for pool in pools):
            return None
        if split is None:
            return self._ring_variable(pools[0])
        if route.name not in self._retry_upstreams:
            name = self._names.variable("next", route.name)
            entries = tuple(
                Entry(
                    Literal(pool.name, "key"),
                    text(inline_upstream(self._ring_variable(pool)) if ring(pool) else pool.name),
                )
                for pool in pools
            )
            origin = Atom(route.field)
            self.maps.append(Map(origin, text(inline(split)), reference(name), EMPTY, entries, volatile=True))
            self._retry_upstreams[route.name] = reference(name)
        return self._retry_upstreams[route.name]

    def _ring_variable(self, pool: Pool) -> Atom:
        """The variable with the upstream of the endpoint after the last one tried."""
        if pool.name not in self._ring_variables:
            self.single_pools[pool.name] = None
            name = self._names.variable("after", pool.name)
            self._ring_variables[pool.name] = reference(name)
            source = text(inline("tries"), " ", inline("last_endpoint"))
            entries = tuple(_ring_entries(pool))
            default = Atom(backup_upstream(pool.name) if has_separate_backups(pool) else pool.name)
            self.maps.append(Map(Atom(pool.field), source, reference(name), default, entries, volatile=True))
        return self._ring_variables[pool.name]

    def last_endpoint(self) -> str:
        """The variable with the address of the last endpoint tried."""
        if "$last_endpoint" not in self._added:
            self._added.add("$last_endpoint")
            last = Entry(Literal("(?<last>[^ ,]+)$", "regex"), text(inline("last")))
            source = text(inline("upstream_addr"))
            self.maps.append(Map(NONE, source, Atom("$last_endpoint"), EMPTY, (last,), volatile=True))
        return "last_endpoint"

    def add_common_maps(self) -> None:
        """Add the maps that all chains share."""
        if "$cause" in self._added:
            return
        self._added.add("$cause")
        self.last_endpoint()
        methods = tuple(Entry(Atom(method), Atom("1")) for method in IDEMPOTENT)
        self.maps.append(Map(NONE, text(inline("request_method")), Atom("$repeatable"), Atom("0"), methods))
        counts = tuple(
            Entry(Literal(f"^{_ONE}(?:{_NEXT}{_ONE}){{{more}}}$", "regex"), Atom(str(more + 1)))
            for more in range(MAX_RETRIES + 1)
        )
        self.maps.append(Map(NONE, text(inline("upstream_status")), Atom("$tries"), Atom("0"), counts, volatile=True))
        source = variables(("upstream_addr", "upstream_connect_time", "upstream_header_time", "upstream_status"))
        line = r"[^\n]*\n"
        causes = (
            (rf"^(?![^\n]*:[0-9]+\n){line}", "none"),
            (rf"^{line}(?:[^\n]* )?-\n", "connect"),
            (rf"^{line}{line}(?:[^\n]* )?[0-9.]+\n", "status"),
            (rf"^{line}{line}{line}(?:[^\n]* )?504\n", "timeout"),
        )
        entries = tuple(Entry(Literal(regex, "regex"), Atom(word)) for regex, word in causes)
        self.maps.append(Map(NONE, source, Atom("$cause"), Atom("reset"), entries, volatile=True))
        large = Entry(Literal(f"^{above(REPLAYED_BODY)}$", "regex"), Atom("1"))
        self.maps.append(Map(NONE, text(inline("content_length")), Atom("$long_body"), Atom("0"), (large,)))
        statuses = (
            Entry(Literal("^none ", "regex"), Atom("503")),
            Entry(Literal("504$", "regex"), Atom("504")),
        )
        source = text(inline("cause"), " ", inline("upstream_status"))
        self.maps.append(Map(NONE, source, Atom("$failed_with"), Atom("502"), statuses, volatile=True))


def _body_maps() -> Iterator[Map]:
    """Whether a body of unknown length is too long, once nginx has read it; and whether a request may have one."""
    long = Entry(Literal(rf"^[\x00-\xff]{{{REPLAYED_BODY + 1}}}", "regex"), Atom("1"))
    yield Map(NONE, text(inline("request_body")), Atom("$long_in_memory"), Atom("0"), (long,))
    memory = Entry(Literal("", "key"), text(inline("long_in_memory")))
    yield Map(NONE, text(inline("request_body_file")), Atom("$long_chunks"), Atom("1"), (memory,))
    source = variables(("server_protocol", "request_method", "content_length", "http_transfer_encoding"), " ")
    # Over HTTP/2 no header announces a body.
    unsized = r"^(?:HTTP/2\.0 (?!GET |HEAD |OPTIONS )[^ ]+  |HTTP/1\.[01] (?!GET |HEAD )[^ ]+  [^ ])"
    yield Map(NONE, source, Atom("$unsized"), Atom("0"), (Entry(Literal(unsized, "regex"), Atom("1")),))


def _conditions(policy: Retries, at: int, has_fallback: bool, *, always: bool) -> list[str]:
    """Regexes that lead from try `at` to the next, over cause, repeatable, number of tries and their statuses."""
    method = "[01]" if always else "1"
    words = sorted(_CAUSES[c] for c in policy.causes if c is not RetryCause.CONNECT_FAILURE)
    conditions = [f"{word} {method} {at} .*" for word in words]
    if policy.statuses:
        conditions.append(f"status {method} {at} (?:.* )?(?:{'|'.join(map(str, policy.statuses))}) ")
    if RetryCause.CONNECT_FAILURE in policy.causes:
        conditions.append(f"connect [01] {at} .*")
    return [*conditions, f"none [01] {at} .*"] if has_fallback else conditions


def _ring_entries(pool: Pool) -> Iterator[Entry]:
    """The endpoint after each: first round the serving ones, then the backups, then from the start."""
    every = ring(pool)
    serving = sum(not e.backup for e in every)
    at = {e: n for n, e in enumerate(pool.endpoints)}

    def entry(tries: str, last: Endpoint, to: Endpoint) -> Entry:
        address = escapes.group(escapes.literal(last.authority), escapes.plain())
        return Entry(Literal(f"^{tries} {address}$", "regex"), Atom(single_upstream(pool.name, at[to])))

    if serving < len(every):
        # The first backup follows when every serving endpoint has been tried.
        turns = "|".join(str(n) for n in range(1, MAX_RETRIES + 1) if n % len(every) == serving)
        if turns:
            for endpoint in every[:serving]:
                yield entry(f"(?:{turns})", endpoint, every[serving])
    for n, endpoint in enumerate(every[:serving]):
        yield entry("[0-9]", endpoint, every[(n + 1) % serving])
    for n, endpoint in enumerate(every[serving:]):
        yield entry("[0-9]", endpoint, every[(serving + n + 1) % len(every)])


def _native_retries(policy: Retries) -> tuple[Line, ...]:
    """nginx's own retries for streamed bodies: it does not retry once it has sent a part."""
    if RetryCause.CONNECT_FAILURE not in policy.causes:
        return ()
    return (
        directive("proxy_next_upstream", "error", "timeout", "non_idempotent"),
        directive("proxy_next_upstream_tries", str(policy.max + 1)),
    )


def _name(route: Route, what: str, at: int, variant: int) -> Atom:
    return named_location(route.name, f"{what}{at}" if variant == 1 else f"{what}{at}:{variant}")
