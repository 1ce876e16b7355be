"""Compares a parsed request with a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.plan.model import HostPattern, PathKind, PathMatch, Rule, ValueKind, ValueMatch
from lbgen.plan.regex import matches_whole

if TYPE_CHECKING:
    from lbgen.plan.request import ParsedRequest


def to_wire(text: str) -> str:
    """Text of the plan as sent: its UTF-8 bytes, one character for each byte."""
    return text.encode().decode("latin-1")


def mismatch(rule: Rule, request: ParsedRequest) -> str | None:
    """The first part of `rule` that does not hold for `request`, as a phrase; None when the rule takes it."""
    match = rule.match
    if not covers_host(rule.host, request.host):
        return f"host {request.host or '(none)'} is not {rule.host}"
    if not _covers_path(match.path, request):
        return f"path {request.path} is not {match.path.kind} {match.path.value}"
    if match.methods and request.method not in match.methods:
        return f"method {request.method} is not {' or '.join(match.methods)}"
    for wanted in match.headers:
        lines = request.lines(wanted.name)
        if not _holds_in_list(wanted.value, lines):
            return _differs(f"header {wanted.name}", ", ".join(lines) if lines else None, wanted.value)
    for wanted in match.query:
        value = request.parameter(to_wire(wanted.name))
        if value is None or not _holds(wanted.value, value):
            return _differs(f"query parameter {wanted.name}", value, wanted.value)
    for wanted in match.cookies:
        value = request.cookie(to_wire(wanted.name))
        if value is None or not _holds(wanted.value, value):
            return _differs(f"cookie {wanted.name}", value, wanted.value)
    return None


def covers_host(pattern: HostPattern | None, host: str | None) -> bool:
    """Whether `pattern` (None = every host) covers a request for `host` (None = without host)."""
    return pattern is None or (host is not None and pattern.covers(host))


def _covers_path(wanted: PathMatch, request: ParsedRequest) -> bool:
    path = request.matched_path
    match wanted.kind:
        case PathKind.EXACT:
            return path == wanted.value
        case PathKind.PREFIX:
            return wanted.value == "/" or path == wanted.value or path.startswith(wanted.value + "/")
        case PathKind.REGEX:
            return matches_whole(wanted.value, request.path)
        case _:
            assert_never(wanted.kind)


def _holds(wanted: ValueMatch, value: str) -> bool:
    match wanted.kind:
        case ValueKind.EXACT:
            return value == to_wire(wanted.value)
        case ValueKind.REGEX:
            return matches_whole(wanted.value, value)
        case ValueKind.PRESENT:
            return value != ""
        case _:
            assert_never(wanted.kind)


def _holds_in_list(wanted: ValueMatch, lines: tuple[str, ...]) -> bool:
    """Several lines and one comma-separated list are the same thing (RFC 9110 5.3)."""
    if not lines:
        return False
    if wanted.kind is ValueKind.PRESENT:
        return any(lines)
    combined = ", ".join(lines)
    return any(_holds(wanted, value) for value in (combined, *(e.strip(" \t") for e in combined.split(","))))


def _differs(what: str, value: str | None, wanted: ValueMatch) -> str:
    if value is None:
        return f"{what} is missing"
    if wanted.kind is ValueKind.PRESENT:
        return f"{what} is empty"
    return f"{what} is {value!r}, not {'regex ' if wanted.kind is ValueKind.REGEX else ''}{wanted.value!r}"
