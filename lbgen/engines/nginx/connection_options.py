"""Requests whose Connection header names fields: locations that forward them without those fields (nginx 1.31).

nginx forwards all headers of a client or none. Such requests therefore continue in a filtered location that forwards
none; a script writes the remaining fields behind the Host line. Locations that differ only in upstream and target share
one filtered location, to which `$filtered` names the rule; maps have the rule's location, upstream and target.

A server block sends the requests of a rule there before nginx selects a location, by a map over its rules: an `if` in
each location would double nginx's memory. Only the locations of rules with limits, retries and the like test it again.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.engines.nginx.names import inline, inline_upstream, reference
from lbgen.engines.nginx.request_values import header_variable
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import EMPTY, directive, text
from lbgen.engines.nginx.upstream_protocols import PROXY
from lbgen.engines.nginx.view import NONE, Check, Entry, Guard, Header, Location, Map, Proxy, Text
from lbgen.engines.text import Atom, Literal
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.access_log import LoggedRoutes
    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Line
    from lbgen.plan.model import Listener

SCRIPTS = (
    script("fields_left", "connection", "left"),
    script("response_options_dropped", "connection", "ended"),  # used by $response_options
)
_PROTECTED = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")  # requests that name them are refused
_UPSTREAM = Atom("$filtered_to")
_SHARED = Atom("@filtered")
_FILTERED = Atom("filtered")
_REFUSED = Atom("/../refused")
_RESPONSE_FILTER = Header(Atom("X-Connection-Options"), text(Atom("$response_options")))
_REFUSES = Check(Atom("$nominates"), 400, EMPTY)


class ClientHeaders:
    """Variables with a client's headers, empty when its Connection header names them; collects the maps."""

    def __init__(self, *, filters: bool) -> None:
        self.maps: list[Map] = []
        self._filters = filters
        self._known: dict[str, Atom] = {}

    def variable(self, header: str) -> Atom:
        """The variable of a header, for use in a text."""
        plain = inline(header_variable(header))
        if not self._filters or header in _PROTECTED:
            return plain
        if header not in self._known:
            name = f"sent_{header_variable(header).removeprefix('http_')}"
            nominated = Entry(Literal(rf"(?i)(?:^|,)[ \t]*{header}[ \t]*(?:,|$)", "regex"), EMPTY)
            source = text(inline("http_connection"))
            self.maps.append(Map(NONE, source, reference(name), text(plain), (nominated,)))
            self._known[header] = inline(name)
        return self._known[header]


class _Place(Struct):
    """Where the filtered requests of a proxy go: their location, upstream and target, and the names of the headers that
    nginx sets. `shared`: the location is one of all such routes. `keys` are the values of `$filtered`, by route."""

    proxy: Proxy
    at: Atom
    to: Text
    names: str
    shared: bool
    keys: dict[str, str]


class FilteredLocations:
    """The filtered locations of all server blocks; collects their maps."""

    def __init__(self, logged_routes: LoggedRoutes, texts: Texts, *, in_use: bool) -> None:
        self._in_use = in_use
        self._logged_routes = logged_routes
        self.texts = texts
        self._places: dict[tuple[Proxy, Guard | None, tuple[Header, ...]], _Place] = {}
        self._locations: dict[tuple[Proxy, Guard | None], Atom] = {}
        self._shared: dict[tuple[Atom, tuple[Line, ...]], Location] = {}
        self._by_target: dict[tuple[Atom, Text, str], dict[str, str]] = {}
        self._keys: list[tuple[Literal, Atom, Text, str]] = []
        self._variants: Counter[str] = Counter()

    @property
    def maps(self) -> tuple[Map, ...]:
        """The maps from `$filtered` to the location, and to the upstream and target; volatile since a mirror's copy
        shares its request's variables."""
        if not self._keys:
            return (Map(NONE, text(inline("nominates")), Atom("$filtered_fields"), EMPTY, ()),) if self._in_use else ()
        default = Counter(names for *_, names in self._keys).most_common(1)[0][0]
        places = tuple(Entry(key, at) for key, at, _, _ in self._keys if at != _SHARED)
        targets = tuple(Entry(key, to) for key, _, to, _ in self._keys if to != EMPTY)
        made = tuple(Entry(key, self.texts.of(f"{names},")) for key, _, _, names in self._keys if names != default)
        place: Text | Atom = text(inline("filtered_location")) if places else _SHARED
        none = Literal("", "key")
        at = Map(
            NONE, text(inline("fields_left")), Atom("$filtered_at"), place, (Entry(none, _REFUSED),), volatile=True
        )
        return (
            at,
            *((self._by_filtered("$filtered_location", _SHARED, places),) if places else ()),
            self._by_filtered(_UPSTREAM.text, EMPTY, targets),
            self._by_filtered("$fields_made", self.texts.of(f"{default},"), made),
        )

    @staticmethod
    def _by_filtered(name: str, default: Text | Atom, entries: tuple[Entry, ...]) -> Map:
        return Map(NONE, text(inline("filtered")), Atom(name), default, entries, volatile=True)

    def add(
        self,
        listener: Listener,
        route: Atom,
        proxy: Proxy,
        log_variables: tuple[Line, ...],
        standard: tuple[Header, ...],
        guard: Guard | None = None,
    ) -> tuple[str, Location]:
        """The value of `$filtered` for requests of a location, and their filtered location. `standard` are the headers
        of the listener, the others are of the location."""
        limits = Guard((), (), guard.lines) if guard and guard.lines else None
        headers = proxy.headers or standard
        place = self._places.get((proxy, limits, headers))
        if place is None:
            place = self._places[proxy, limits, headers] = self._place(proxy, limits, headers)
        key = place.keys.get(route.text) or self.key(route.text, place.at, place.to, place.names)
        if not place.shared:
            return key, Location(
                NONE, route=route, name=place.at, proxy=place.proxy, guard=limits, log_variables=log_variables
            )
        log = self._logged_routes.add_alias(listener, key, route.text)
        if (place.at, log) not in self._shared:
            self._shared[place.at, log] = Location(
                NONE, route=_FILTERED, name=place.at, proxy=place.proxy, guard=limits, log_variables=log
            )
        return key, self._shared[place.at, log]

    def _place(self, proxy: Proxy, limits: Guard | None, headers: tuple[Header, ...]) -> _Place:
        filtered, to, shared = _upstream_apart(proxy)
        count = len(self._locations) + 1
        at = self._locations.setdefault((filtered, limits), _SHARED if count == 1 else Atom(f"@filtered:{count}"))
        names = header_names(headers)
        return _Place(filtered, at, to, names, shared, self._by_target.setdefault((at, to, names), {}))

    def key(self, route: str, at: Atom, to: Text, names: str) -> str:
        """The value of `$filtered` for a location, an upstream with a target, and the headers that nginx sets."""
        keys = self._by_target.setdefault((at, to, names), {})
        if route not in keys:
            self._variants[route] += 1
            count = self._variants[route]
            keys[route] = f"{route}:{count}" if count > 1 else route
            self._keys.append((Literal(keys[route], "key"), at, to, names))
        return keys[route]


def header_names(headers: tuple[Header, ...]) -> str:
    """The names of headers, each after a comma."""
    return "".join(f",{name}" for name in dict.fromkeys(x.name.text.lower() for x in headers))


def add_filtered_locations(
    locations: Iterable[Location], listener: Listener, standard: tuple[Header, ...], all_filtered: FilteredLocations
) -> list[Location]:
    """The locations of a server, and the filtered location of each that tests Connection itself; `standard` are its
    headers."""
    out: list[Location] = []
    shared: dict[Location, None] = {}
    for location in locations:
        proxy = location.proxy
        if proxy is None:
            out.append(location)
            continue
        if proxy.add:
            proxy = with_response_filter(proxy)
            location = replace(location, proxy=proxy)
        if location.filtered_before:
            out.append(location)
        elif not is_http1(proxy):
            out.append(replace(location, proxy=replace(proxy, checks=(*proxy.checks, _REFUSES))))
        elif location.retry:
            assert location.name is not None  # noqa: S101  # a map names it
            name = Atom(f"{location.name.text}:nominated")
            key = all_filtered.key(location.route.text, name, EMPTY, header_names(proxy.headers or standard))
            log = (*location.log_variables, directive("set", "$filtered", Literal(key, "word")))
            out += (location, replace(location, name=name, proxy=_filtered(proxy), log_variables=log))
        else:
            key, filtered = all_filtered.add(
                listener, location.route, proxy, location.log_variables, standard, location.guard
            )
            shared[filtered] = None
            out.append(replace(location, proxy=replace(proxy, filtered=Literal(key, "word"))))
    return [*out, *shared]


def with_response_filter(proxy: Proxy) -> Proxy:
    """The header of the http block that drops fields of responses; a location with headers of its own repeats it."""
    return replace(proxy, add=(_RESPONSE_FILTER, *proxy.add)) if proxy.add and is_http1(proxy) else proxy


def is_http1(proxy: Proxy) -> bool:
    """Further header lines can be appended to Host's value in HTTP/1 only."""
    if proxy.module.text != PROXY:
        return False
    return not proxy.lines or all(line.name.text != "proxy_http_version" for line in proxy.lines)


def _upstream_apart(proxy: Proxy) -> tuple[Proxy, Text, bool]:
    """The `proxy` of a filtered location, its upstream and target where a map has them, and whether one has."""
    filtered = _filtered(proxy)
    if proxy.failure_to is not None or proxy.next_try is not None or proxy.headers:
        return filtered, EMPTY, False
    target = () if proxy.target is None else (inline_upstream(proxy.target),)
    to = text(inline_upstream(proxy.upstream), *target)
    return replace(filtered, upstream=_UPSTREAM, target=None), to, True


def _filtered(proxy: Proxy) -> Proxy:
    """`proxy` without the client's headers, and without the checks that precede the filtered location."""
    return replace(
        proxy,
        without_headers=True,
        checks=(),
        no_status_retry=None,
        streamed_to=None,
        unknown_length_to=None,
        tunnel_to=None,
        queue_to=None,
    )
