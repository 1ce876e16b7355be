"""The message of a test whose cases fail: its first line is enough to find them, also with `pytest --tb=line`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.conformance.runner import CaseState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.conformance.runner import Result

_NAMED = 5  # cases in the first line
_WIDTH = 120  # of what differed, there


def failures(results: Sequence[Result]) -> str:
    """File, engine, cases and what differed in a line, then all of it with how to send each request again; "" if none
    failed."""
    failed = [r for r in results if r.state is CaseState.FAIL]
    if not failed:
        return ""
    named = [f"{r.case} ({_short(r.detail)})" for r in failed[:_NAMED]]
    if more := failed[_NAMED:]:
        named.append(f"{len(more)} more")
    places = ", ".join(dict.fromkeys(f"{r.file} on {r.subject}" for r in failed))
    first = f"{len(failed)} of {len(results)} cases of {places} fail: {'; '.join(named)}"
    return "\n".join([first, *(f"{r.case}: {r.detail}\n    {r.again}" for r in failed)])


def _short(detail: str) -> str:
    line = " ".join(detail.split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
