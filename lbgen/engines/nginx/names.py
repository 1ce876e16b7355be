"""Names of nginx variables, headers and named locations, and how they are written in parameters and texts."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network

from lbgen.engines.text import Atom, Literal

_PLAIN = re.compile(r"[0-9A-Za-z_.-]+")
_SPELLING = {
    "http2-settings": "HTTP2-Settings",
    "x-request-id": "X-Request-ID",
    "x-real-ip": "X-Real-IP",
    "cf-connecting-ip": "CF-Connecting-IP",
    "true-client-ip": "True-Client-IP",
    "te": "TE",
}
_OTHER = re.compile(r"[^a-z0-9]+")
_MAPPED = 96  # bits of ::ffff:0:0/96
_MAX_LENGTH = 42  # with a number appended, still below nginx's default hash bucket for variables


class Names:
    """Allocates variable names that are unique in the file; the same calls give the same names."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def variable(self, kind: str, words: str) -> str:
        """`kind_words` without the dollar sign, numbered when taken."""
        room = _MAX_LENGTH - len(kind) - 1
        tail = _OTHER.sub("_", words.lower()).strip("_")[:room].strip("_")
        base = f"{kind}_{tail}" if tail else kind
        name = base
        while name in self._taken:
            self._taken[base] += 1
            name = f"{base}_{self._taken[base]}"
        self._taken[name] = 1
        return name


def reference(name: str) -> Atom:
    """A variable as a parameter of its own."""
    return Atom(f"${name}")


def inline(name: str) -> Atom:
    """A variable inside a text."""
    return Atom(f"${{{name}}}")


def inline_upstream(upstream: Atom) -> str | Atom:
    """The name of an upstream, or the variable that holds it, inside a text."""
    return inline(upstream.text[1:]) if upstream.text.startswith("$") else upstream.text


def header_name(name: str) -> Atom | Literal:
    """A header's name in its usual spelling."""
    spelled = _SPELLING.get(name) or "-".join(word.capitalize() for word in name.split("-"))
    return Atom(spelled) if _PLAIN.fullmatch(spelled) else Literal(spelled, "word")


def single_upstream(pool: str, at: int) -> str:
    """The upstream of one endpoint; names of pools contain no tilde."""
    return f"{pool}~{at}"


def named_location(route: str, what: str = "") -> Atom:
    """A named location of a route; names of routes contain no colon."""
    return Atom(f"@{route}:{what}" if what else f"@{route}")


def network(text: str) -> Atom:
    """A network in CIDR notation, or an address; that of mapped IPv6 addresses is the IPv4 network, as nginx reads
    their clients."""
    return Atom.of(r"[0-9a-fA-F.:/]+", str(unmapped(text)) if ":" in text else text)


def unmapped(text: str) -> IPv4Network | IPv6Network:
    """A network; that of IPv4-mapped IPv6 addresses as IPv4."""
    found = ip_network(text)
    first = found.network_address
    four = first.ipv4_mapped if isinstance(first, IPv6Address) else None
    if four is None or found.prefixlen < _MAPPED:
        return found
    return IPv4Network((four, found.prefixlen - _MAPPED))
