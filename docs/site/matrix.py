"""Totals per section of the contract, from the matrix in docs/conformance.md, for README.md."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "conformance.md"
SECTIONS = {
    "2": "which route wins",
    "3": "targets and framing",
    "4": "what reaches the endpoint and the client",
    "5": "statuses and limits",
    "6": "time, retries, health",
    "7": "layer 4",
    "10": "access log",
}
_CELL = re.compile(r"(?P<passed>\d+)/(?P<total>\d+)(?: \((?P<others>[^)]*)\))?")


def rows() -> tuple[list[str], dict[str, list[str]]]:
    """Return the engines, and the cells of each clause."""
    text = (
        PAGE.read_text(encoding="utf-8")
        .partition("<!-- conformance:begin -->")[2]
        .partition("<!-- conformance:end -->")[0]
    )
    table = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    clauses = {re.sub(r"\[(.*?)\]\(.*?\)", r"\1", row[0]): row[1:] for row in table[2:]}
    return table[0][1:], clauses


def totals() -> str:
    """Return a table: cases passed of cases, by section and engine; others are approximate, refused or skipped."""
    engines, clauses = rows()
    lines = ["| section | " + " | ".join(engines) + " |", "|---" * (len(engines) + 1) + "|"]
    for section, title in SECTIONS.items():
        inside = [cells for clause, cells in clauses.items() if clause.startswith(f"{section}.")]
        sizes = [max(_total(cell) for cell in cells) for cells in inside]
        cells = []
        for column in range(len(engines)):
            passed = sum(_passed(row[column]) for row in inside)
            ran = any(row[column] != "skipped" for row in inside)
            cells.append(f"{passed}/{sum(sizes)}" if passed else "refused" if ran else "skipped")
        lines.append(f"| {section}. {title} | " + " | ".join(cells) + " |")
    lines.append("| **all** | " + " | ".join(cell.partition(" (")[0] for cell in clauses["**all**"]) + " |")
    return "\n".join(lines)


def _total(cell: str) -> int:
    found = _CELL.match(cell)
    return int(found["total"]) if found else 0


def _passed(cell: str) -> int:
    found = _CELL.match(cell)
    return int(found["passed"]) if found else 0
