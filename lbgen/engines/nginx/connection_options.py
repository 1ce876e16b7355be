"""Fields that Connection names -> a second form of each location that forwards, for requests that name any (1.31).

nginx passes a client's header on as a whole or not at all. So a request that names fields goes on in a location that
passes none of it on; a script writes the fields that are left, as further lines behind Host's. Locations that differ in
their upstream and target only share one such location, which is told both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines.nginx.matching import variable
from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.pool_selection import inlined
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.upstream_protocols import PROXY
from lbgen.engines.nginx.view import NONE, Check, Detour, Entry, Gate, Location, Map, Text
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Header, Proxy

_NEVER = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")  # a request that names them is refused
LEFT = script("fields_left", "connection", "left")
ENDED = script("response_options_dropped", "connection", "ended")  # of responses; asked by $response_options
_TO = Atom("$nominated_to")
_REFUSED = Check(Atom("$nominates"), 400, EMPTY)


class Sent:
    """Hands out what a client sent as a header, nothing when its Connection names that; maps gather in `maps`."""

    def __init__(self, *, old: bool) -> None:
        self.maps: list[Map] = []
        self._old = old
        self._known: dict[str, Atom] = {}

    def __call__(self, header: str) -> Atom:
        """The variable, for a text."""
        if self._old or header in _NEVER:
            return inline(variable(header))
        if header not in self._known:
            name = f"sent_{variable(header).removeprefix('http_')}"
            named = Entry(Literal(rf"(?i)(?:^|,)[ \t]*{header}[ \t]*(?:,|$)", "regex"), EMPTY)
            source = text(inline("http_connection"))
            self.maps.append(Map(NONE, source, Atom(f"${name}"), text(inline(variable(header))), (named,)))
            self._known[header] = inline(name)
        return self._known[header]


def both_forms(found: Iterable[Location], standard: tuple[Header, ...], origin: Atom, texts: Texts) -> list[Location]:
    """The locations of a server, each that forwards with its second form; `standard` are the server's headers."""
    out: list[Location] = []
    shared: dict[tuple[Proxy, Gate | None], Location] = {}
    for location in found:
        proxy = location.proxy
        if proxy is None:
            out.append(location)
        elif not _http1(proxy):
            out.append(replace(location, proxy=replace(proxy, checks=(*proxy.checks, _REFUSED))))
        elif location.retry:
            assert location.name is not None  # noqa: S101  # a map names it
            name = Atom(f"{location.name.text}:nominated")
            out += (location, replace(location, name=name, proxy=_second(proxy, standard, texts)))
        else:
            form = replace(_second(proxy, standard, texts), upstream=_TO, target=None)
            gate = Gate((), (), location.gate.lines) if location.gate is not None and location.gate.lines else None
            if (form, gate) not in shared:
                name = Atom(f"@nominated:{len(shared) + 1}")
                shared[form, gate] = Location(origin, name=name, proxy=form, gate=gate)
            at = shared[form, gate].name
            assert at is not None  # noqa: S101  # just given
            target = () if proxy.target is None else (inlined(proxy.target),)
            detour = Detour(at, text(inlined(proxy.upstream), *target))
            out.append(replace(location, proxy=replace(proxy, nominated=detour)))
    return [*out, *shared.values()]


def _http1(proxy: Proxy) -> bool:
    """Whether endpoints get lines; HTTP/2 has frames with one field each."""
    return proxy.kind.text == PROXY and all(line.name.text != "proxy_http_version" for line in proxy.lines)


def _second(proxy: Proxy, standard: tuple[Header, ...], texts: Texts) -> Proxy:
    """What is asked before a request gets there is not asked again."""
    headers = proxy.headers or standard
    made = texts.of(*(f",{name}" for name in dict.fromkeys(x.name.text.lower() for x in headers)), ",")
    written = tuple(
        replace(x, value=Text((*x.value.parts, inline("fields_left")))) if x.name.text == "Host" else x for x in headers
    )
    first = replace(proxy, headers=written, made=made, checks=(), once=None, streamed=None, unsized=None)
    return replace(first, tunnel=None, waits=None)
