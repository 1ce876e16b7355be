"""Further tries -> a chain of named locations, each of which asks one endpoint.

nginx's own retries cannot tell a refused connection from a reset one, never ask an endpoint twice and count a kept
connection that broke as none. So every try is a location of its own: what fails in it goes on by `error_page` to the
location that a map names by cause, method and number of tries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines import escapes
from lbgen.engines.nginx.names import inline, named, reference
from lbgen.engines.nginx.number_regex import above
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import NONE, Answer, Entry, Line, Location, Map, Reading
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Balance
from lbgen.plan.policy import IDEMPOTENT, REPLAYED_BODY, RetryCause
from lbgen.plan.policy import Retries as Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Proxy, Text
    from lbgen.plan.model import Endpoint, Forward, Pool, Route

MOST = 7
"""Extra tries: nginx follows ten hops of a request, and up to three more are needed."""

_CAUSES = {RetryCause.CONNECT_FAILURE: "connect", RetryCause.RESET: "reset", RetryCause.TIMEOUT: "timeout"}
_DETOUR = Wanted(1, frozenset(), ())
"""No retries: a request is only asked anew where nobody could be asked."""
# Chunks come into this as they are, so it is larger; what does not fit is in a file, and counts as too long.
_BODY = Line(Atom("client_body_buffer_size"), (Atom("32k"),))
_ONE = "(?:[0-9]+|-)"
_NEXT = "(?:, | : )"


def most(wanted: Wanted, *, held: bool) -> int:
    """Extra tries: reading a body first, to know how long it is, takes one more hop. `held`: bodies are read anyway."""
    return MOST - 1 if wanted.statuses and not held else MOST


def ring(pool: Pool) -> tuple[Endpoint, ...]:
    """The endpoints that further tries go round, backups last; empty where nginx must choose: there is one endpoint
    only, or who is up is known to the pool's own upstream alone."""
    asked = [e for e in pool.endpoints if e.weight and not e.backup]
    every = (*asked, *(e for e in pool.endpoints if e.weight and e.backup))
    fixed = pool.active is None and pool.passive is None and all(e.is_ip for e in every)
    return every if fixed and len(every) > 1 else ()


def single(pool: str, at: int) -> str:
    """The upstream of one endpoint of a pool; a tilde is in no pool's name."""
    return f"{pool}~{at}"


def backups(pool: str) -> str:
    """The upstream of a pool's backups, where they have one of their own."""
    return f"{pool}~backup"


def separate_backups(pool: Pool) -> bool:
    """nginx has no backups beside hashing or random choice."""
    hashed = pool.balance in (Balance.HASH, Balance.SOURCE_HASH, Balance.RANDOM)
    return hashed and any(e.backup for e in pool.endpoints)


class Retries:
    """Makes the chains; maps gather in `maps`, pools that need upstreams of single endpoints in `single`."""

    def __init__(self, names: Names, pools: Mapping[str, Pool], *, old: bool) -> None:
        self.maps: list[Map] = []
        self._old = old
        self.single: dict[str, None] = {}
        self._names = names
        self._pools = pools
        self._after: dict[str, Atom] = {}
        self._next: dict[str, Atom] = {}
        self._shared = False
        self._last = False
        self._again: dict[tuple[str, int], Atom] = {}
        self._short: set[str] = set()

    def chain(
        self,
        start: Location,
        route: Route,
        action: Forward,
        proxy: Proxy,
        variant: int,
        split: str | None,
        detour: Atom | None,
    ) -> tuple[Proxy, tuple[Location, ...]]:
        """`proxy` as the first try, and the locations of what may follow. `detour`: the upstream for a request whose
        own has no endpoint at all, None when there is no other."""
        wanted = action.retries or _DETOUR
        self.common()
        copied = bool(proxy.mirrors) and not action.buffering.request  # for the copy nginx has read a long body, too
        flows = action.retries is not None and not action.buffering.request
        repeatable = self._repeatable(short=copied, every=wanted.all_methods)
        known = self._known(repeatable) if flows else repeatable  # once the body is there
        again = self._goal(route, wanted, variant, detour is not None, known)
        upstream = self._following(route, action, split) or detour or proxy.upstream
        careful = bool(wanted.statuses) and known is not None
        kept = replace(proxy, lines=(*proxy.lines, _BODY)) if flows else proxy
        tries = [kept, *(replace(proxy, upstream=upstream, tunnel=None, mirrors=()) for _ in range(wanted.max))]
        found: list[Location] = []
        first = proxy
        for at, each in enumerate(tries):
            last = at == wanted.max
            once = replace(each, again=again, buffered=True)
            made = once
            if last:
                once = made = replace(each, again=named(route.name, "final"), buffered=True)
            elif wanted.statuses:
                made = replace(made, retried=wanted.statuses)
                if careful:
                    name = _name(route, "once", at, variant)
                    asked = known if at else repeatable
                    if asked is not None:
                        made = replace(made, once=name, repeatable=asked)
                    # Limits have not been asked before the first try.
                    gate = start.gate if at == 0 else None
                    found.append(Location(start.origin, name=name, proxy=replace(once, tunnel=None), gate=gate))
            if at == 0:
                first = made
                if flows and made.retried:
                    first = replace(made, unsized=_name(route, "read", at, variant))
                    found += self._reading(start, route, made, variant)
                if flows and not copied:
                    name = _name(route, "long", at, variant)
                    first = replace(first, streamed=name)
                    flowing = replace(proxy, again=named(route.name, "final"), lines=(*proxy.lines, *_natively(wanted)))
                    found.append(Location(start.origin, name=name, proxy=flowing, gate=start.gate))
            else:
                found.append(Location(start.origin, name=_name(route, "again", at, variant), proxy=made, retry=True))
        return first, tuple(found)

    def _repeatable(self, *, short: bool, every: bool) -> Atom | None:
        """The variable that is 1 where more than a failed connection is tried again: its method, unless `every` one is,
        and, where it has to be `short`, the length of its body let that be. None = always."""
        if not short:
            return None if every else Atom("$repeatable")
        variable = Atom("$short_body" if every else "$repeatable_short")
        if variable.text not in self._short:
            self._short.add(variable.text)
            source = text(inline("long_body")) if every else text(inline("repeatable"), " ", inline("long_body"))
            entry = Entry(Literal("0" if every else "1 0", "key"), Atom("1"))
            self.maps.append(Map(NONE, source, variable, Atom("0"), (entry,)))
        return variable

    def _known(self, repeatable: Atom | None) -> Atom:
        """The same, of a request whose body is there: one without a length may turn out to be long."""
        before = repeatable.text.removeprefix("$") if repeatable is not None else ""
        variable = Atom(f"$sent_again_{before}" if before else "$short_chunks")
        if variable.text not in self._short:
            if not self._short & {"$long_chunks"}:
                self._short.add("$long_chunks")
                self.maps += _body_maps()
            self._short.add(variable.text)
            source = text(inline(before), " ", inline("long_chunks")) if before else text(inline("long_chunks"))
            entry = Entry(Literal("1 0" if before else "0", "key"), Atom("1"))
            self.maps.append(Map(NONE, source, variable, Atom("0"), (entry,)))
        return variable

    def _reading(self, start: Location, route: Route, made: Proxy, variant: int) -> tuple[Location, ...]:
        """The first try of a request whose body has no length: it is read, and then it is known whether the endpoint's
        statuses may lead to another try. nginx reads a body for a copy before all else, here for one that goes nowhere,
        and a picture is nothing that can be sent to: 405, whose page is the try."""
        name = self._names.variable("sized", f"{route.name} {variant}")
        goes, sink = _name(route, "sized", 0, variant), Atom(f"/../read/{route.name}/{variant}")
        short = Entry(Literal("0", "key"), self._form(goes))
        origin = Atom(f"{route.field}.retries")
        once = _name(route, "once", 0, variant)
        self.maps.append(Map(origin, text(inline("long_chunks")), Atom(f"${name}"), once, (short,)))
        read = Reading(reference(name), sink, made.on_failure or Atom("@failed"))
        try_ = replace(made, once=None, repeatable=None, tunnel=None)
        logged = (Line(Atom("internal"), ()), *start.logged)
        nothing = Answer(204, EMPTY)
        return (
            Location(start.origin, name=_name(route, "read", 0, variant), reads=read, gate=start.gate),
            Location(start.origin, name=Atom(f"= {sink.text}"), answer=nothing, logged=logged),
            Location(start.origin, name=goes, proxy=try_, gate=start.gate, retry=True),
        )

    def _goal(self, route: Route, wanted: Wanted, variant: int, detour: bool, repeatable: Atom | None) -> Atom:
        """The variable that names the location where a request that failed goes on."""
        key = (route.name, variant)
        if key not in self._again:
            name = self._names.variable("again", route.name)
            entries = tuple(
                Entry(Literal(f"^(?:{'|'.join(ways)})$", "regex"), self._form(_name(route, "again", at, variant)))
                for at in range(1, wanted.max + 1)
                if (ways := _ways(wanted, at, detour, always=repeatable is None))
            )
            may = "repeatable" if repeatable is None else repeatable.text.removeprefix("$")
            source = text(*(part for key in ("cause", may, "tries", "upstream_status") for part in (inline(key), " ")))
            final = named(route.name, "final")
            origin = Atom(f"{route.field}.retries")
            self.maps.append(Map(origin, source, Atom(f"${name}"), final, entries, volatile=True))
            self._again[key] = reference(name)
        return self._again[key]

    def _form(self, name: Atom) -> Text | Atom:
        """A location's name, or that of its second form; see `connection_options.py`."""
        return name if self._old else text(name.text, inline("nominates"))

    def _following(self, route: Route, action: Forward, split: str | None) -> Atom | None:
        """The upstream of a further try; None = the same as of the first."""
        pools = [self._pools[t.pool] for t in action.targets if t.weight]
        if not any(ring(pool) for pool in pools):
            return None
        if split is None:
            return self._ring(pools[0])
        if route.name not in self._next:
            name = self._names.variable("next", route.name)
            entries = tuple(
                Entry(Literal(pool.name, "key"), text(_braced(self._ring(pool))) if ring(pool) else text(pool.name))
                for pool in pools
            )
            made = Map(Atom(route.field), text(inline(split)), Atom(f"${name}"), EMPTY, entries, volatile=True)
            self.maps.append(made)
            self._next[route.name] = reference(name)
        return self._next[route.name]

    def _ring(self, pool: Pool) -> Atom:
        """The variable with the upstream of the endpoint after the one that was asked last."""
        if pool.name not in self._after:
            self.single[pool.name] = None
            name = self._names.variable("after", pool.name)
            self._after[pool.name] = reference(name)
            source = text(inline("tries"), " ", inline("last_endpoint"))
            entries = tuple(_steps(pool))
            origin = Atom(pool.field)
            default = Atom(backups(pool.name) if separate_backups(pool) else pool.name)
            self.maps.append(Map(origin, source, Atom(f"${name}"), default, entries, volatile=True))
        return self._after[pool.name]

    def last_endpoint(self) -> str:
        """The variable with the address that was asked last."""
        if not self._last:
            self._last = True
            last = Entry(Literal("(?<last>[^ ,]+)$", "regex"), text(inline("last")))
            self.maps.append(
                Map(NONE, text(inline("upstream_addr")), Atom("$last_endpoint"), EMPTY, (last,), volatile=True)
            )
        return "last_endpoint"

    def common(self) -> None:
        """What all chains share, once."""
        if self._shared:
            return
        self._shared = True
        self.last_endpoint()
        methods = tuple(Entry(Atom(method), Atom("1")) for method in IDEMPOTENT)
        self.maps.append(Map(NONE, text(inline("request_method")), Atom("$repeatable"), Atom("0"), methods))
        counts = tuple(
            Entry(Literal(f"^{_ONE}(?:{_NEXT}{_ONE}){{{more}}}$", "regex"), Atom(str(more + 1)))
            for more in range(MOST + 1)
        )
        self.maps.append(Map(NONE, text(inline("upstream_status")), Atom("$tries"), Atom("0"), counts, volatile=True))
        parts = ("upstream_addr", "upstream_connect_time", "upstream_header_time", "upstream_status")
        source = text(*(part for key in parts for part in (inline(key), "\n")))
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
    """Whether a body without a length is long, to be asked once it is there; and whether a request may have one."""
    long = Entry(Literal(rf"^[\x00-\xff]{{{REPLAYED_BODY + 1}}}", "regex"), Atom("1"))
    yield Map(NONE, text(inline("request_body")), Atom("$long_in_memory"), Atom("0"), (long,))
    memory = Entry(Literal("", "key"), text(inline("long_in_memory")))
    yield Map(NONE, text(inline("request_body_file")), Atom("$long_chunks"), Atom("1"), (memory,))
    parts = ("server_protocol", "request_method", "content_length", "http_transfer_encoding")
    source = text(*(part for key in parts for part in (inline(key), " ")))
    # Over HTTP/2 nothing says that there is none.
    unsized = r"^(?:HTTP/2\.0 (?!GET |HEAD |OPTIONS )[^ ]+  |HTTP/1\.[01] (?!GET |HEAD )[^ ]+  [^ ])"
    yield Map(NONE, source, Atom("$unsized"), Atom("0"), (Entry(Literal(unsized, "regex"), Atom("1")),))


def _ways(wanted: Wanted, at: int, detour: bool, *, always: bool) -> list[str]:
    """What leads from try `at` to the next: cause, whether the request is repeatable, tries and their statuses."""
    method = "[01]" if always else "1"
    words = sorted(_CAUSES[c] for c in wanted.causes if c is not RetryCause.CONNECT_FAILURE)
    ways = [f"{word} {method} {at} .*" for word in words]
    if wanted.statuses:
        ways.append(f"status {method} {at} (?:.* )?(?:{'|'.join(map(str, wanted.statuses))}) ")
    if RetryCause.CONNECT_FAILURE in wanted.causes:
        ways.append(f"connect [01] {at} .*")
    return [*ways, f"none [01] {at} .*"] if detour else ways


def _steps(pool: Pool) -> Iterator[Entry]:
    """Round the endpoints that usually serve, then the backups, then from the start again."""
    every = ring(pool)
    usual = sum(not e.backup for e in every)
    at = {e: n for n, e in enumerate(pool.endpoints)}

    def step(tries: str, last: Endpoint, to: Endpoint) -> Entry:
        sent = escapes.group(escapes.literal(last.authority), escapes.plain())
        return Entry(Literal(f"^{tries} {sent}$", "regex"), Atom(single(pool.name, at[to])))

    if usual < len(every):
        # A backup's turn comes when all others had theirs.
        turns = "|".join(str(n) for n in range(1, MOST + 1) if n % len(every) == usual)
        if turns:
            for endpoint in every[:usual]:
                yield step(f"(?:{turns})", endpoint, every[usual])
    for n, endpoint in enumerate(every[:usual]):
        yield step("[0-9]", endpoint, every[(n + 1) % usual])
    for n, endpoint in enumerate(every[usual:]):
        yield step("[0-9]", endpoint, every[(usual + n + 1) % len(every)])


def _natively(wanted: Wanted) -> tuple[Line, ...]:
    """For bodies that are passed on as they come: once anything is sent, nginx never tries again."""
    if RetryCause.CONNECT_FAILURE not in wanted.causes:
        return ()
    causes = (Atom("error"), Atom("timeout"), Atom("non_idempotent"))
    return (
        Line(Atom("proxy_next_upstream"), causes),
        Line(Atom("proxy_next_upstream_tries"), (Atom(str(wanted.max + 1)),)),
    )


def _name(route: Route, what: str, at: int, variant: int) -> Atom:
    return named(route.name, f"{what}{at}" if variant == 1 else f"{what}{at}:{variant}")


def _braced(variable: Atom) -> Atom:
    return inline(variable.text.removeprefix("$"))
