"""The severity of a finding, for lbgen.diagnostics and the shape of its JSON."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding; only errors stop a command."""

    ERROR = "error"
    WARNING = "warning"
    ADVICE = "advice"
