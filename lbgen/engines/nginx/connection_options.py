"""Requests whose Connection header names fields: locations that forward them without those fields (nginx 1.31).

nginx forwards all headers of a client or none. Such requests therefore continue in a filtered location that forwards
none; a script writes the remaining fields behind the Host line. Locations that differ only in upstream and target share
one filtered location, which reads both from variables.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines.nginx.matching import variable
from lbgen.engines.nginx.names import inline, inline_upstream, reference
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.upstream_protocols import PROXY
from lbgen.engines.nginx.view import NONE, Check, Entry, FilteredForward, Guard, Location, Map, Text
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.nginx.strings import Texts
    from lbgen.engines.nginx.view import Header, Proxy

SCRIPTS = (
    script("fields_left", "connection", "left"),
    script("response_options_dropped", "connection", "ended"),  # used by $response_options
)
_PROTECTED = ("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto")  # requests that name them are refused
_UPSTREAM = Atom("$nominated_to")
_REFUSED = Check(Atom("$nominates"), 400, EMPTY)


class ClientHeaders:
    """Variables with a client's headers, empty when its Connection header names them; collects the maps."""

    def __init__(self, *, old: bool) -> None:
        self.maps: list[Map] = []
        self._old = old
        self._known: dict[str, Atom] = {}

    def variable(self, header: str) -> Atom:
        """The variable of a header, for use in a text."""
        plain = inline(variable(header))
        if self._old or header in _PROTECTED:
            return plain
        if header not in self._known:
            name = f"sent_{variable(header).removeprefix('http_')}"
            nominated = Entry(Literal(rf"(?i)(?:^|,)[ \t]*{header}[ \t]*(?:,|$)", "regex"), EMPTY)
            source = text(inline("http_connection"))
            self.maps.append(Map(NONE, source, reference(name), text(plain), (nominated,)))
            self._known[header] = inline(name)
        return self._known[header]


def add_filtered_locations(
    locations: Iterable[Location], standard: tuple[Header, ...], origin: Atom, texts: Texts
) -> list[Location]:
    """The locations of a server, and the filtered location of each that forwards; `standard` are its headers."""
    out: list[Location] = []
    shared: dict[tuple[Proxy, Guard | None], Location] = {}
    for location in locations:
        proxy = location.proxy
        if proxy is None:
            out.append(location)
        elif not _is_http1(proxy):
            out.append(replace(location, proxy=replace(proxy, checks=(*proxy.checks, _REFUSED))))
        elif location.retry:
            assert location.name is not None  # noqa: S101  # a map names it
            name = Atom(f"{location.name.text}:nominated")
            out += (location, replace(location, name=name, proxy=_filtered(proxy, standard, texts)))
        else:
            filtered = replace(_filtered(proxy, standard, texts), upstream=_UPSTREAM, target=None)
            limits = Guard((), (), location.guard.lines) if location.guard and location.guard.lines else None
            if (filtered, limits) not in shared:
                name = Atom(f"@nominated:{len(shared) + 1}")
                shared[filtered, limits] = Location(origin, name=name, proxy=filtered, guard=limits)
            at = shared[filtered, limits].name
            assert at is not None  # noqa: S101  # set above
            target = () if proxy.target is None else (inline_upstream(proxy.target),)
            forward = FilteredForward(at, text(inline_upstream(proxy.upstream), *target))
            out.append(replace(location, proxy=replace(proxy, filtered=forward)))
    return [*out, *shared.values()]


def _is_http1(proxy: Proxy) -> bool:
    """Further header lines can be appended to Host's value in HTTP/1 only."""
    return proxy.module.text == PROXY and all(line.name.text != "proxy_http_version" for line in proxy.lines)


def _filtered(proxy: Proxy, standard: tuple[Header, ...], texts: Texts) -> Proxy:
    """`proxy` without the checks that precede the filtered location."""
    headers = proxy.headers or standard
    return replace(
        proxy,
        headers=tuple(
            replace(x, value=Text((*x.value.parts, inline("fields_left")))) if x.name.text == "Host" else x
            for x in headers
        ),
        written_headers=texts.of(*(f",{name}" for name in dict.fromkeys(x.name.text.lower() for x in headers)), ","),
        checks=(),
        no_status_retry=None,
        streamed_to=None,
        unknown_length_to=None,
        tunnel_to=None,
        queue_to=None,
    )
