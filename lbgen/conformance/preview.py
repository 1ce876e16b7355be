"""What `up` or `reload` would do to what runs now, and which requests would be answered differently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.conformance.topology_diff import Comparison, compare, compare_tiers
from lbgen.diagnostics import Diagnostic
from lbgen.runtime.common.driver import Action, Decision, GroupDecision, PartChange

if TYPE_CHECKING:
    from lbgen.conformance.json_types import PreviewRecord


class Preview(Struct, frozen=True):
    """`parts` has a line for each engine, agent and for the stand-ins, those without a change too. `compared` is the
    difference between what runs and what would run, None where nothing runs, or another lbgen started it.
    `skipped`: engines that would be left out, with the findings that say why."""

    name: str
    runtime: str
    parts: tuple[PartChange, ...]
    compared: Comparison | None
    skipped: tuple[tuple[str, tuple[Diagnostic, ...]], ...] = ()
    warnings: tuple[Diagnostic, ...] = ()

    @classmethod
    def of(cls, name: str, runtime: str, decision: Decision | GroupDecision, *warnings: Diagnostic) -> Preview:
        """The preview of a decision, with `warnings` before its own."""
        compared = None
        if isinstance(decision, GroupDecision):
            if decision.before:
                compared = compare_tiers(decision.before, decision.after)
        elif decision.before is not None:
            compared = compare(decision.before, decision.after)
        return cls(name, runtime, decision.parts, compared, decision.skipped, (*warnings, *decision.warnings))

    @property
    def changes(self) -> bool:
        """Whether anything would be created, changed or removed."""
        return any(part.action is not Action.NONE for part in self.parts)

    @property
    def interrupts(self) -> bool:
        """Whether requests would be refused or cut meanwhile."""
        return any(part.action is Action.INTERRUPT for part in self.parts)

    def as_dict(self) -> PreviewRecord:
        """The JSON record."""
        return {
            "name": self.name,
            "runtime": self.runtime,
            "changes": self.changes,
            "interrupts": self.interrupts,
            "parts": [{"kind": x.kind, "name": x.name, "action": x.action, "reason": x.reason} for x in self.parts],
            "compared": None if self.compared is None else self.compared.as_dict(),
            "skipped": {name: [each.as_dict() for each in reasons] for name, reasons in self.skipped},
            "warnings": [each.as_dict() for each in self.warnings],
        }
