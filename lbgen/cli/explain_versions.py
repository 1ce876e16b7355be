"""`lbgen explain --versions`: which versions of each engine can serve a topology, and what rules the others out."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lbgen.cli.output import console

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic
    from lbgen.plan.model import Plan

_SHOWN = 3  # findings of a version that are named


def explain_versions(plan: Plan, names: tuple[str, ...], *, quiet: bool = False) -> dict[str, object]:
    """Return the findings that rule a version out, by engine and version; print the table unless `quiet`."""
    from lbgen.engines.api import engine
    from lbgen.engines.verdicts import obstacles_by_version

    found = {name: obstacles_by_version(plan, engine(name)) for name in names}
    if not quiet:
        from rich.table import Table

        table = Table("engine", "version", "serves it", "what rules it out", title=_title(plan), title_justify="left")
        for name, versions in found.items():
            rows = ((v, "\n".join(map(_why, reasons[:_SHOWN])) + _more(reasons)) for v, reasons in versions.items())
            for _, alike in groupby(rows, key=lambda row: row[1] or row[0]):
                which, texts = zip(*alike, strict=True)
                table.add_row(name, "\n".join(which), "no" if texts[0] else "yes", texts[0])
        console().print(table, markup=False)
    return {name: {v: [d.as_dict() for d in each] for v, each in versions.items()} for name, versions in found.items()}


def _why(reason: Diagnostic) -> str:
    """The field, and the engine's own words."""
    note = reason.message.partition(": ")[2].partition("; ")[0]
    return f"{reason.field}: {note}" + (f" (--accept {reason.accept})" if reason.accept else "")


def _more(reasons: tuple[Diagnostic, ...]) -> str:
    return f"\nand {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""


def _title(plan: Plan) -> str:
    return "versions" if plan.tier is None else f"versions for tier {plan.tier.tier}"
