"""Compares a parsed request with a rule."""

from __future__ import annotations

from lbgen.plan.model import HostPattern, Rule
from lbgen.plan.request import ParsedRequest


def mismatch(rule: Rule, request: ParsedRequest) -> str | None:
    """The first part of `rule` that does not hold for `request`, as a phrase; None when the rule takes it."""
    match = rule.match
    if not covers_host(rule.host, request.host):
        return f"host {request.host or '(none)'} is not {rule.host}"
    if not match.path.holds(request):
        return f"path {request.path} is not {match.path.word} {match.path.value}"
    return next((each.mismatch(request) for each in match.conditions if not each.holds(request)), None)


def covers_host(pattern: HostPattern | None, host: str | None) -> bool:
    """Whether `pattern` (None = every host) covers a request for `host` (None = without host)."""
    return pattern is None or (host is not None and pattern.covers(host))
