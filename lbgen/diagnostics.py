"""Findings with a place and a code, and the exceptions that carry them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from lbgen.codes import CODES
from lbgen.json_types import FindingRecord
from lbgen.severity import Severity

__all__ = [
    "Diagnostic",
    "EngineError",
    "LbgenError",
    "Severity",
    "Span",
    "UsageError",
    "counted",
    "without_errors",
]


class Span(Struct, frozen=True, order=True):
    """A place in a file: line and column count from 1; 0 = no line."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


NOWHERE = Span("<topology>")


class Diagnostic(Struct, frozen=True):
    """A finding: its place, the field, the problem and the remedy (`hint`). KeyError for an unknown code."""

    code: str
    message: str
    span: Span = NOWHERE
    field: str = ""
    hint: str = ""
    severity: Severity = Severity.ERROR
    accept: str = ""  # the word by which --accept, or `accept` in the topology, lets it pass

    def __post_init__(self) -> None:
        if self.code not in CODES:
            raise KeyError(f"diagnostic code {self.code} is not registered")

    def __repr__(self) -> str:
        return f"<Diagnostic {self}>"

    def __str__(self) -> str:
        nowhere = self.span == NOWHERE and not self.field  # about an engine, a daemon or a command
        place = f"{self.span}: " if self.span.file and not nowhere else ""
        field = f" {self.field}" if self.field else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{place}{self.severity} {self.code}{field}: {self.message}{hint}"

    def as_dict(self) -> FindingRecord:
        """The JSON record: code, severity, file, line, column, field, message, hint; accept where there is one."""
        record: FindingRecord = {
            "code": self.code,
            "severity": self.severity,
            "file": self.span.file,
            "line": self.span.line,
            "column": self.span.column,
            "field": self.field,
            "message": self.message,
            "hint": self.hint,
        }
        if self.accept:
            record["accept"] = self.accept
        return record


def without_errors(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """`found`, or EngineError with all of it when one is an error."""
    findings = tuple(found)
    if any(each.severity is Severity.ERROR for each in findings):
        raise EngineError(findings)
    return findings


class LbgenError(Exception):
    """Base of every error lbgen raises on purpose; carries one or more diagnostics, sorted by place.

    Tree: LbgenError (exit 1: findings) > UsageError (exit 2), EngineError (exit 3), DifferenceError (exit 4).
    """

    exit_code = 1

    def __init__(self, diagnostics: Diagnostic | Iterable[Diagnostic]) -> None:
        found = (diagnostics,) if isinstance(diagnostics, Diagnostic) else tuple(diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(found, key=lambda d: (d.span, d.code, d.field)))
        super().__init__("\n".join(str(d) for d in self.diagnostics))

    def __repr__(self) -> str:
        codes = ", ".join(dict.fromkeys(each.code for each in self.diagnostics))
        return f"<{type(self).__name__} with {len(self.diagnostics)} of {codes}>"


class UsageError(LbgenError):
    """An invalid call: unknown engine, missing stack, contradicting options."""

    exit_code = 2


class EngineError(LbgenError):
    """An engine or its runtime failed: executable missing, port taken, process ended, root needed."""

    exit_code = 3


class DifferenceError(LbgenError):
    """Two engines behave differently without a declared difference."""

    exit_code = 4


def counted(numbers: Mapping[str, int]) -> str:
    """`1 listener, 2 pools` of `{"listener": 1, "pool": 2}`, for short forms of objects."""
    return ", ".join(f"{number} {noun}{'' if number == 1 else 's'}" for noun, number in numbers.items())
