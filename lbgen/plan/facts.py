"""What the facts behind placeholders are worth: on a listener, and for a request that the oracle has."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from lbgen.plan.listener import Listener
from lbgen.plan.path_conditions import Path
from lbgen.plan.regex import compile_pattern
from lbgen.plan.request import ParsedRequest, to_wire
from lbgen.plan.values import (
    PROXY_FIELDS,
    Fact,
    Placeholder,
    Value,
    group_number,
    join_parts,
    parts_of,
    text_pattern,
)

_NO_CERTIFICATE = {Fact.CERT_SUBJECT: "", Fact.CERT_FINGERPRINT: "", Fact.CERT_VERIFIED: "false"}


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
