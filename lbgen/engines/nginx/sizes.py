"""Limits on the target and the headers of requests: buffers that hold what is allowed, and maps that find more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.number_regex import above
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.view import NONE, Check, Entry, Line, Map
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Script
    from lbgen.plan.model import Listener
    from lbgen.plan.policy import Limits

_KIB = 1024
_BUFFERS, _BUFFER = 4, 16 * _KIB  # as in the http block
_TARGET = 8 * _KIB  # what a target may be when nothing is said
LARGEST = 60 * _KIB
"""Bytes of a target or of headers that a regex can still count."""
_REASON = text("Request Header Fields Too Large\n")


class Sizes:
    """Hands out the checks of listeners; their maps gather in `maps`."""

    def __init__(self, names: Names, *, old: bool) -> None:
        self.maps: list[Map] = []
        self.scripts: tuple[Script, ...] = ()
        self._old = old
        self._names = names
        self._known: dict[tuple[Limits, bool], tuple[Check, ...]] = {}

    def checks(self, listener: Listener) -> tuple[Check, ...]:
        """431 for what is larger than allowed."""
        limits = listener.limits
        key = (limits, listener.http2)
        if key not in self._known:
            found = []
            if limits.target is not None:
                found.append(self._check("long_target", listener, "request_uri", _longer(limits.target)))
            if limits.headers is not None:
                found.append(self._headers(limits.headers, limits.target or _TARGET, listener))
                if listener.http2 and not self._old:
                    found.append(self._unpacked(limits.headers, listener))
            self._known[key] = tuple(found)
        return self._known[key]

    def _headers(self, limit: int, target: int, listener: Listener) -> Check:
        """nginx counts the request line too, so the target is taken off, in steps of 1 KiB."""
        entries = [
            Entry(Literal(f"^{above(limit + _KIB * (step + 1))}\\n{_between(step)}$", "regex"), Atom("1"))
            for step in range(target // _KIB + 1)
        ]
        allowed = Entry(Literal(f"^(?!{above(limit)}\\n)", "regex"), Atom("0"))  # nearly all requests end here
        name = Atom(f"${self._names.variable('long_headers', listener.name)}")
        source = text(inline("request_length"), "\n", inline("request_uri"))
        self.maps.append(Map(Atom(f"{listener.field}.limits"), source, name, Atom("0"), (allowed, *entries)))
        return Check(name, 431, _REASON)

    def _unpacked(self, limit: int, listener: Listener) -> Check:
        """Over HTTP/2 nginx counts what HPACK makes of the headers."""
        if not self.scripts:
            self.scripts = (script("size_of_headers", "sizes", "headers"),)
            entry = Entry(Literal("HTTP/2.0", "key"), text(inline("size_of_headers")))
            self.maps.append(Map(NONE, text(inline("server_protocol")), Atom("$unpacked"), Atom("0"), (entry,)))
        return self._check("many_headers", listener, "unpacked", f"^{above(limit)}$")

    def _check(self, kind: str, listener: Listener, source: str, regex: str) -> Check:
        name = Atom(f"${self._names.variable(kind, listener.name)}")
        entry = Entry(Literal(regex, "regex"), Atom("1"))
        self.maps.append(Map(Atom(f"{listener.field}.limits"), text(inline(source)), name, Atom("0"), (entry,)))
        return Check(name, 431, _REASON)


def buffers(limits: Limits) -> Line | None:
    """Room for what `limits` allow; None when the usual is enough."""
    size = max(limits.target or 0, limits.headers or 0) + 2 * _KIB
    if size <= _BUFFER:
        return None
    return Line(Atom("large_client_header_buffers"), (Atom(str(_BUFFERS)), Atom(f"{-(-size // _KIB)}k")))


def _longer(length: int) -> str:
    return f"^.{{{length + 1}}}"


def _between(step: int) -> str:
    return f".{{{step * _KIB},{step * _KIB + _KIB - 1}}}"
