"""Findings for people and for the tools that read them: text with the source line, JSON, SARIF, GitHub annotations; and
the engines that a command left out, each with the way back to it."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

from lbgen.codes import CODES
from lbgen.diagnostics import Diagnostic, Severity, Span
from lbgen.version import VERSION

FORMATS = ("text", "json", "sarif", "github")
_WIDEST = 100  # columns of a source line that are shown
_SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "note"}
_GITHUB_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.ADVICE: "notice"}
_FIELDS = 3  # that are named before the rest is counted
_VERDICTS = {"LB301", "LB302", "LB304"}


def excerpt(span: Span) -> list[str]:
    """The source line of a place and a caret below its column; nothing where the file has no such line."""
    text = linecache.getline(span.file, span.line).rstrip("\n") if span.line else ""
    if not text.strip() or not text.isprintable() or span.column < 1:
        return []
    first = max(0, span.column - _WIDEST * 3 // 4) if len(text) > _WIDEST else 0
    shown = text[first : first + _WIDEST]
    number = str(span.line)
    return [f"  {number} | {shown}", f"  {' ' * len(number)} | {' ' * (span.column - 1 - first)}^"]


def github(findings: Sequence[Diagnostic]) -> str:
    """One workflow command a line, which GitHub shows beside the changed lines."""
    lines = []
    for each in findings:
        place = f"file={_property(each.span.file)},line={each.span.line or 1},col={each.span.column or 1}"
        title = _property(f"{each.code} {each.field}".rstrip())
        lines.append(f"::{_GITHUB_LEVELS[each.severity]} {place},title={title}::{_data(_message(each))}\n")
    return "".join(lines)


def sarif(findings: Sequence[Diagnostic]) -> dict[str, object]:
    """A SARIF 2.1.0 log with one run; each code that was found is a rule with its cause and remedy."""
    codes = sorted({each.code for each in findings})
    rules = [
        {
            "id": code,
            "shortDescription": {"text": CODES[code].title},
            "fullDescription": {"text": CODES[code].cause},
            "help": {"text": CODES[code].remedy},
        }
        for code in codes
    ]
    driver = {"name": "lbgen", "version": VERSION, "rules": rules}
    results = [_result(each, codes.index(each.code)) for each in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"version": "2.1.0", "runs": [run]}


def _result(finding: Diagnostic, rule: int) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": quote(finding.span.file)}}
    if finding.span.line:
        place["region"] = {"startLine": finding.span.line, "startColumn": max(finding.span.column, 1)}
    location: dict[str, object] = {"physicalLocation": place}
    if finding.field:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.field}]
    return {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _SARIF_LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": [location],
    }


def _message(finding: Diagnostic) -> str:
    field = f"{finding.field}: " if finding.field else ""
    return f"{field}{finding.message}" + (f"; {finding.hint}" if finding.hint else "")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


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
