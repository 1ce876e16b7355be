"""Values that are made of facts of a request: texts with placeholders, resolved.

A text without placeholders is a `str`, as everywhere in a plan; `Template` is one with some. What a fact is worth is in
section 4 of the contract; `lbgen.plan.facts` has the oracle's answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from lbgen.plan.path_conditions import Path, RegexPath
from lbgen.plan.regex import compile_pattern
from lbgen.spec.placeholders import Mention, split_text


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


def group_number(path: Path, name: str) -> int | None:
    """The number of a group of a path's regular expression; None where it has no such group."""
    if not isinstance(path, RegexPath):
        return None
    compiled = compile_pattern(path.value)
    if name.isdecimal():
        return int(name) if 1 <= int(name) <= compiled.groups else None
    found: int | None = compiled.groupindex.get(name)
    return found


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
