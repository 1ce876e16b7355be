"""Turns the output of an engine's own checker into diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

CHECK_SECONDS = 30.0  # for up to 1,000 routes


def refused_files(plan: Plan, title: str, problems: Iterable[str]) -> Iterator[Diagnostic]:
    """LB401 for each problem that a checker named; at the field of the topology's file where it names one."""
    for problem in problems:
        field, path = _file_in(plan, problem)
        hint = f"the file is {path}" if path else ""
        yield Diagnostic("LB401", f"{title}: {problem}", plan.span(field), field, hint)


def _file_in(plan: Plan, text: str) -> tuple[str, str]:
    """Field and path of the topology's file that `text` names by its path; the longest path wins; both "" = none."""
    found = [
        (len(path), field, file.source or file.path)
        for field, file in plan.named_files()
        for path in (file.path, file.source or file.path)
        if path in text
    ]
    return max(found, default=(0, "", ""))[1:]
