"""The engines that a command left out, each with the way back to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbgen.diagnostics import Diagnostic

_FIELDS = 3  # that are named before the rest is counted
_VERDICTS = {"LB301", "LB302", "LB304"}


def way_back(reasons: Sequence[Diagnostic]) -> str:
    """What to do so that the engine is not left out: the option to copy, and the fields to change, with the reason.

    Where it refuses more than a few fields, only why it refuses most of them."""
    others = [each for each in reasons if each.code not in _VERDICTS]
    if others:
        return others[0].message
    ways = []
    refused = [each for each in reasons if not each.accept]
    fields = list(dict.fromkeys(each.field for each in refused))
    notes = Counter(filter(None, map(_note, refused)))
    if len(fields) > _FIELDS:
        why = "".join(f": {note}" for note, _ in notes.most_common(1))
        return f"it refuses {len(fields)} fields{why}"
    if fields:
        why = f" ({', '.join(notes)})" if notes else ""
        ways.append(f"change or drop {', '.join(fields)}{why}")
    accepts = dict.fromkeys(each.accept for each in reasons if each.accept)
    if accepts:
        differing = dict.fromkeys(filter(None, (_note(each) for each in reasons if each.accept)))
        rest = [f"and {len(differing) - _FIELDS} more"] if len(differing) > _FIELDS else []
        said = f" ({'; '.join([*list(differing)[:_FIELDS], *rest])})" if differing else ""
        ways.append(f"--accept {'all' if 'all' in accepts else ','.join(accepts)}{said}")
    return "; ".join(ways)


def _note(reason: Diagnostic) -> str:
    """The engine's own reason within a verdict, up to its first semicolon."""
    return reason.message.partition(": ")[2].partition("; ")[0]


def summary(runs: Iterable[str], left_out: Iterable[tuple[str, Sequence[Diagnostic]]]) -> list[str]:
    """`runs on ...` and a line for each engine that is left out; nothing where none is."""
    ways = [(name, way_back(reasons)) for name, reasons in left_out]
    if not ways:
        return []
    width = max(len(name) for name, _ in ways)
    head = f"runs on {', '.join(runs) or 'no engine'}; left out (lbgen explain says why):"
    return [head, *(f"  {name:{width}}  {way}" for name, way in ways)]
