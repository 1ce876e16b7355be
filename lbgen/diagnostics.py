"""Findings with a place and a code, and the exceptions that carry them: how every module speaks to the user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "CODES",
    "Diagnostic",
    "EngineError",
    "LbgenError",
    "Severity",
    "Span",
    "UsageError",
    "worst",
]


class Severity(StrEnum):
    """How much a finding matters: `error` stops, `warning` and `advice` do not."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A place in a file: line and column count from 1, 0 when a finding has no line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


NOWHERE = Span("<topology>")

# Stable: a code is never reused for another meaning. 1xx text and values, 2xx cross-object rules, 3xx verdicts,
# 4xx engines and runtime, 5xx advice.
CODES: dict[str, str] = {
    "LB100": "the file cannot be read as YAML",
    "LB101": "unknown key",
    "LB102": "a key appears twice in one mapping",
    "LB103": "a required key is missing",
    "LB104": "a value is outside its range or not of its form",
    "LB105": "a value has the wrong type (number in quotes, yes/no for true/false, a list for a mapping ...)",
    "LB106": "a scalar that YAML 1.1 and 1.2 read differently",
    "LB107": "merge keys, custom tags or several documents",
    "LB108": "too large, too deep or too many aliases",
    "LB109": "the file is not UTF-8 text",
    "LB110": "the file does not exist or cannot be read",
    "LB111": "unknown topology version",
    "LB112": "a name is not of the form [a-z0-9]([a-z0-9._-]*[a-z0-9])?, at most 63",
    "LB113": "not a duration",
    "LB114": "not a size",
    "LB115": "not an address",
    "LB116": "not a host name",
    "LB117": "not a path",
    "LB118": "not a portable (RE2) regular expression",
    "LB119": "not a header name, or a header that may not be edited",
    "LB120": "control characters in a text",
    "LB121": "not a method",
    "LB122": "not a network in CIDR form",
    "LB123": "not a status",
    "LB124": "not a rate",
    "LB125": "exactly one of several keys is needed",
    "LB126": "an empty list or mapping",
    "LB130": "unknown profile",
    "LB131": "a profile that may not be used that way",
    "LB201": "unknown reference",
    "LB202": "two objects of one name",
    "LB203": "unreachable route",
    "LB204": "two routes with the same hosts and match",
    "LB205": "a listener without routes",
    "LB206": "an L7 field on an L4 route or pool",
    "LB207": "an L4 field or listener where L7 is needed",
    "LB208": "two listeners on one address and port",
    "LB209": "an L4 route that names no listener",
    "LB210": "all weights are zero",
    "LB211": "a file that does not exist",
    "LB212": "a redirect that leads to itself",
    "LB213": "prefix rewrite or redirect on a match that has no prefix",
    "LB214": "a body where the status allows none",
    "LB215": "two endpoints with one address in a pool",
    "LB216": "retries or health settings that contradict each other",
    "LB217": "an L4 pool shared with L7 routes, or a protocol mismatch",
    "LB218": "no listeners or no routes",
    "LB219": "a field about endpoints on a route that asks none",
    "LB220": "the names of a certificate are unknown",
    "LB221": "tiers and listeners that do not fit",
    "LB222": "tiers that lead in circles",
    "LB223": "a route on listeners of several tiers",
    "LB224": "a pool that does not speak what the listener it leads to expects",
    "LB225": "replicas of a tier that cannot be",
    "LB226": "a field of TCP connections where datagrams pass",
    "LB227": "a misspelt name of an engine",
    "LB228": "a field that means nothing beside another",
    "LB230": "the secret of sticky cookies cannot be used",
    "LB251": "a pool that no route uses",
    "LB252": "a match partly covered by an earlier one",
    "LB253": "a hostless rule hidden behind a host's catch-all",
    "LB254": "a code in `ignore` that is none, or an error's",
    "LB261": "retries of methods that may not be repeated",
    "LB262": "retries that last longer than anybody waits",
    "LB263": "slow and fast routes that share a pool",
    "LB264": "an L7 listener that uses nothing of L7",
    "LB265": "a regex where a plain text would do",
    "LB266": "bodies of any size",
    "LB267": "a pool that nothing watches",
    "LB268": "CORS on a route that preflights do not reach",
    "LB269": "sticky clients of endpoints that nothing watches",
    "LB270": "limits by client address where proxies may stand in front",
    "LB271": "a time without limit",
    "LB272": "retries with a single endpoint",
    "LB273": "every origin with credentials",
    "LB274": "a mirror of the pool that serves the route",
    "LB275": "compression of what is compressed",
    "LB276": "a backup of endpoints that nothing watches",
    "LB277": "TLS to endpoints that is not verified",
    "LB278": "a response time beyond the whole request's",
    "LB279": "HSTS over plain HTTP",
    "LB280": "text for one engine alone",
    "LB281": "clients whose address ends at the tier in front",
    "LB282": "TLS that ends in front of the tier that tells endpoints of it",
    "LB283": "an L4 tier behind an L7 one",
    "LB286": "a field with an underscore in its name that a listener drops",
    "LB288": "a default that nothing uses",
    "LB289": "settings of an engine that is not installed",
    "LB290": "a redirect to https that leads to a port without TLS",
    "LB293": "sticky cookies whose values can be guessed",
    "LB301": "refused by an engine",
    "LB302": "approximate on an engine and not accepted",
    "LB303": "an accepted feature that the topology does not use",
    "LB304": "a value that an engine cannot hold",
    "LB305": "unknown engine or engine version",
    "LB306": "a topology of tiers where one without is wanted",
    "LB401": "the engine's own checker refused the configuration",
    "LB402": "engine binary not found",
    "LB403": "an engine did not start or died",
    "LB404": "a port is taken",
    "LB405": "a route did not answer as it should",
    "LB406": "no such stack, or several",
    "LB407": "root is needed",
    "LB408": "the state directory cannot be used",
    "LB409": "unknown runtime",
    "LB410": "the agent's order cannot be used",
    "LB411": "no rendered files where some were named",
    "LB412": "a change that a running stack cannot take over",
    "LB413": "a change that was taken back, as it does not serve",
    "LB414": "two engines that do not behave the same",
    "LB415": "a swap that cannot be done",
    "LB420": "no docker daemon to work with",
    "LB421": "the docker daemon could not do something",
    "LB422": "no image",
    "LB423": "a docker network that containers shall join does not exist, or has no names",
    "LB424": "a file that the topology names cannot be read",
    "LB425": "the operating system refused what the runtime needs",
    "LB426": "lbgen failed, or its supervisor ended, while it changed a running stack",
    "LB427": "a certificate and a key that do not belong together, or a key that cannot be used",
    "LB428": "a certificate that is not valid today",
    "LB429": "a change that serves, while what goes with it is not done",
}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: what is wrong with which field, where it stands, and what would be right."""

    code: str
    message: str
    span: Span = NOWHERE
    field: str = ""
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise KeyError(f"diagnostic code {self.code} is not registered")

    def __str__(self) -> str:
        nowhere = self.span == NOWHERE and not self.field  # of an engine, a daemon, a command
        place = f"{self.span}: " if self.span.file and not nowhere else ""
        field = f" {self.field}" if self.field else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.severity} {self.code}{field}: {self.message}{hint}"

    def as_dict(self) -> dict[str, object]:
        """The JSON record: code, severity, file, line, column, field, message, hint."""
        return {
            "code": self.code,
            "severity": str(self.severity),
            "file": self.span.file,
            "line": self.span.line,
            "column": self.span.column,
            "field": self.field,
            "message": self.message,
            "hint": self.hint,
        }


class LbgenError(Exception):
    """Base of every error lbgen raises on purpose; carries one or more diagnostics, sorted by place.

    Tree: LbgenError (exit 1: findings) > UsageError (exit 2), EngineError (exit 3), DifferenceError (exit 4).
    """

    exit_code = 1

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(found, key=lambda d: (d.span, d.code, d.field)))
        super().__init__("\n".join(str(d) for d in self.diagnostics))


class UsageError(LbgenError):
    """A call that cannot mean anything: unknown engine, missing stack, flags at odds."""

    exit_code = 2


class EngineError(LbgenError):
    """An engine or its runtime failed: binary missing, port taken, process died, root needed."""

    exit_code = 3


class DifferenceError(LbgenError):
    """Two engines behave differently where nothing says so."""

    exit_code = 4


def worst(found: Iterable[Diagnostic]) -> Severity | None:
    """The gravest severity among `found`, or None when there are none."""
    order = list(Severity)
    return min((d.severity for d in found), key=order.index, default=None)
