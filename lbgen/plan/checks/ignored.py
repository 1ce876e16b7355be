"""Warnings and advice that the user ignores."""

from __future__ import annotations

from lbgen.diagnostics import Diagnostic, Severity
from lbgen.plan.checks.context import Context, suggest_known


def drop_ignored(context: Context, codes: tuple[str, ...]) -> list[Diagnostic]:
    """The findings without warnings and advice of `codes` and of the topology's `ignore`; adds LB254 for an entry that
    is no code, or an error's."""
    from lbgen.codes import CODES

    written = context.model.ignore
    errors = {finding.code for finding in context.found if finding.severity is Severity.ERROR}
    quiet = {*written, *codes}
    kept = [x for x in context.found if x.severity is Severity.ERROR or x.code not in quiet]
    context.found = kept
    for n, code in enumerate(written):
        if code not in CODES:
            hint = suggest_known(code, CODES) or "lbgen check shows the codes of findings"
            context.add("LB254", f"ignore[{n}]", f'there is no finding "{code}"', hint, Severity.WARNING)
        elif code in errors:
            context.add("LB254", f"ignore[{n}]", f"{code} is an error, which cannot be ignored", "", Severity.WARNING)
    for code in (code for code in codes if code in errors):
        message = f"{code} is an error, which cannot be ignored"
        context.found.append(Diagnostic("LB254", message, severity=Severity.WARNING))
    return context.found
