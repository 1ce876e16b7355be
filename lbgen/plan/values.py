"""Values that are made of facts of a request: texts with placeholders, resolved.

A text without placeholders is a `str`, as everywhere in a plan; `Template` is one with some. What a fact is worth is in
section 4 of the contract; `Facts` is the oracle's answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.plan.path_conditions import Path, RegexPath
from lbgen.plan.regex import compile_pattern
from lbgen.plan.request import ParsedRequest, to_wire
from lbgen.spec.placeholders import Mention, split_text

if TYPE_CHECKING:
    from lbgen.plan.listener import Listener


class Fact(StrEnum):
    """What a placeholder stands for. `header`, `cookie` and `capture` have a name; `args` is `?` and the query, or
    nothing, which redirects end with."""

    CLIENT_IP = "client_ip"
    CLIENT_PORT = "client_port"
    SCHEME = "scheme"
    HOST = "host"
    PORT = "port"
    METHOD = "method"
    PATH = "path"
    QUERY = "query"
    URI = "uri"
    REQUEST_ID = "request_id"
    SERVER_NAME = "server_name"
    ROUTE = "route"
    LISTENER = "listener"
    ENDPOINT = "endpoint"
    CERT_SUBJECT = "client_cert.subject"
    CERT_FINGERPRINT = "client_cert.fingerprint"
    CERT_VERIFIED = "client_cert.verified"
    HEADER = "header"
    COOKIE = "cookie"
    CAPTURE = "capture"
    ARGS = "args"


PROXY_FIELDS = frozenset(
    {"x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port", "x-request-id"}
)
"""Header fields that count, and are kept, only where they come from a trusted proxy."""
_NO_CERTIFICATE = {Fact.CERT_SUBJECT: "", Fact.CERT_FINGERPRINT: "", Fact.CERT_VERIFIED: "false"}
_MAYBE_EMPTY = frozenset(
    {
        *(Fact.QUERY, Fact.ARGS, Fact.SERVER_NAME, Fact.ENDPOINT, Fact.CERT_SUBJECT, Fact.CERT_FINGERPRINT),
        *(Fact.HEADER, Fact.COOKIE, Fact.CAPTURE),
    }
)


class Placeholder(Struct, frozen=True):
    """A fact; `name` is which header (lower case), cookie or group of the matched path."""

    fact: Fact
    name: str = ""


class Template(Struct, frozen=True):
    """Literal texts and placeholders, at least one of these; no two texts are neighbours."""

    parts: tuple[str | Placeholder, ...]


Value = str | Template


def read_value(text: str) -> Value:
    """The value of a written text, whose placeholders were checked."""
    parts = [part if isinstance(part, str) else read_placeholder(part) for part in split_text(text)]
    return join_parts(parts)


def read_placeholder(mention: Mention) -> Placeholder:
    """What a placeholder of a text stands for."""
    family, _, rest = mention.name.partition(".")
    if family == Fact.HEADER and rest:
        return Placeholder(Fact.HEADER, rest.lower())
    if family == Fact.COOKIE and rest:
        return Placeholder(Fact.COOKIE, rest)
    if mention.is_group:
        return Placeholder(Fact.CAPTURE, mention.name)
    return Placeholder(Fact(mention.name))


def join_parts(parts: Iterable[str | Placeholder]) -> Value:
    """A value of these parts, neighbouring texts joined."""
    found: list[str | Placeholder] = []
    for part in parts:
        if isinstance(part, str) and found and isinstance(last := found[-1], str):
            found[-1] = last + part
        elif part != "":
            found.append(part)
    if not any(isinstance(part, Placeholder) for part in found):
        return "".join(part for part in found if isinstance(part, str))
    return Template(tuple(found))


def parts_of(value: Value) -> tuple[str | Placeholder, ...]:
    """Texts and placeholders of any value."""
    return (value,) if isinstance(value, str) else value.parts


def placeholders_of(*values: Value) -> Iterator[Placeholder]:
    """Every placeholder of these values, repetitions included."""
    for value in values:
        if not isinstance(value, str):
            yield from (part for part in value.parts if isinstance(part, Placeholder))


def may_be_empty(value: Value) -> bool:
    """Whether a request can make the whole value empty."""
    return all(part.fact in _MAYBE_EMPTY if isinstance(part, Placeholder) else not part for part in parts_of(value))


def bind(value: Value, route: str, listener: Listener) -> Value:
    """`value` on a listener, with what is the same for all of its requests as text."""
    if isinstance(value, str):
        return value
    known = {
        Fact.SCHEME: listener.scheme,
        Fact.PORT: str(listener.client_port),
        Fact.ROUTE: route,
        Fact.LISTENER: listener.name,
        **({} if listener.terminates_tls else {Fact.SERVER_NAME: ""}),
        **({} if listener.asks_certificate else _NO_CERTIFICATE),
    }
    if not listener.trusted_proxies:  # nobody else may say these
        dropped = {Placeholder(Fact.HEADER, name) for name in PROXY_FIELDS}
        return join_parts("" if part in dropped else _known(part, known) for part in value.parts)
    return join_parts(_known(part, known) for part in value.parts)


def _known(part: str | Placeholder, known: dict[Fact, str]) -> str | Placeholder:
    return part if isinstance(part, str) else known.get(part.fact, part)


def group_number(path: Path, name: str) -> int | None:
    """The number of a group of a path's regular expression; None where it has no such group."""
    if not isinstance(path, RegexPath):
        return None
    compiled = compile_pattern(path.value)
    if name.isdecimal():
        return int(name) if 1 <= int(name) <= compiled.groups else None
    found: int | None = compiled.groupindex.get(name)
    return found


class Facts(Struct, frozen=True):
    """What the oracle has of a request; values are latin-1 texts of one character for each byte, None = not known.
    `request_id` None: the proxy makes it, or it is not known."""

    parsed: ParsedRequest
    listener: Listener
    route: str
    path: Path
    request_id: str | None
    answered: bool = False  # by the proxy itself: there is no endpoint

    def evaluate(self, value: Value) -> str | None:
        """The text that `value` makes; None where some fact is not known."""
        parts = [to_wire(part) if isinstance(part, str) else self._find(part) for part in parts_of(value)]
        return None if any(part is None for part in parts) else "".join(part or "" for part in parts)

    def fill(self, value: Value) -> Value:
        """`value` as latin-1 text, with placeholders left where the fact is not known."""
        return join_parts(map(self._fill, parts_of(value)))

    def _fill(self, part: str | Placeholder) -> str | Placeholder:
        known = to_wire(part) if isinstance(part, str) else self._find(part)
        return part if known is None else known

    def pattern(self, value: Value) -> str:
        """A regular expression for the texts that `value` may make, where some fact is not known."""
        return text_pattern(self.fill(value))

    def _find(self, placeholder: Placeholder) -> str | None:
        known = _FACTS.get(placeholder.fact)
        return known(self, placeholder.name) if known is not None else None

    def header(self, name: str) -> str:
        """All lines of a request header as one list."""
        return ", ".join(each for each in self.parsed.lines(name) if each)

    def capture(self, name: str) -> str:
        """The text of a group of the matched path."""
        number = group_number(self.path, name)
        found = compile_pattern(self.path.value).fullmatch(self.parsed.path.encode("latin-1")) if number else None
        return "" if found is None else (found.group(number) or b"").decode("latin-1")


def text_pattern(value: Value) -> str:
    """A regular expression for the texts that a value may make whose literal parts are latin-1."""
    return "".join(re.escape(part) if isinstance(part, str) else _OPEN.get(part.fact, ".*") for part in parts_of(value))


# What a fact looks like that the oracle does not know.
_OPEN = {
    Fact.CLIENT_PORT: "[0-9]{1,5}",
    Fact.REQUEST_ID: "[!-~]+",
    Fact.SERVER_NAME: "[A-Za-z0-9._-]*",
    Fact.ENDPOINT: r"[^ ,]+:[0-9]{1,5}",
    Fact.CERT_SUBJECT: "(?:[A-Za-z0-9.]+=.*)?",
    Fact.CERT_FINGERPRINT: "(?:[0-9a-f]{40})?",
    Fact.CERT_VERIFIED: "(?:true|false)",
}
_FACTS: dict[Fact, Callable[[Facts, str], str | None]] = {
    Fact.CLIENT_IP: lambda facts, _: facts.parsed.client,
    Fact.SCHEME: lambda facts, _: facts.listener.scheme,
    Fact.HOST: lambda facts, _: facts.parsed.host or "",
    Fact.PORT: lambda facts, _: str(facts.listener.client_port),
    Fact.METHOD: lambda facts, _: facts.parsed.method,
    Fact.PATH: lambda facts, _: facts.parsed.path,
    Fact.QUERY: lambda facts, _: facts.parsed.query or "",
    Fact.URI: lambda facts, _: facts.parsed.target,
    Fact.ARGS: lambda facts, _: "" if facts.parsed.query is None else f"?{facts.parsed.query}",
    Fact.REQUEST_ID: lambda facts, _: facts.request_id,
    Fact.SERVER_NAME: lambda facts, _: None if facts.listener.terminates_tls else "",
    Fact.ROUTE: lambda facts, _: facts.route,
    Fact.LISTENER: lambda facts, _: facts.listener.name,
    Fact.ENDPOINT: lambda facts, _: "" if facts.answered else None,
    Fact.CERT_SUBJECT: lambda facts, _: "" if not facts.listener.asks_certificate else None,
    Fact.CERT_FINGERPRINT: lambda facts, _: "" if not facts.listener.asks_certificate else None,
    Fact.CERT_VERIFIED: lambda facts, _: "false" if not facts.listener.asks_certificate else None,
    Fact.HEADER: Facts.header,
    Fact.COOKIE: lambda facts, name: facts.parsed.cookie(name) or "",
    Fact.CAPTURE: Facts.capture,
}
