"""The reference of finding codes for docs/findings.md, from the registry."""

from __future__ import annotations

from lbgen.codes import CODES

SECTIONS = {
    "LB1": "Text and values",
    "LB20": "Objects of a topology",
    "LB26": "Advice",
    "LB3": "Verdicts of engines",
    "LB4": "Engines and runtimes",
}


def findings() -> str:
    """Return a section for each range of codes, with title, cause, example and remedy of each code."""
    parts = []
    section = ""
    for code, entry in sorted(CODES.items()):
        start = max(start for start in SECTIONS if start <= code)
        if start != section:
            section = start
            parts.append(f"## {SECTIONS[section]}")
        command = entry.example.startswith("$ ")
        example = entry.example.removeprefix("$ ")
        parts.append(
            f"### {code}\n\n**{entry.title[0].upper()}{entry.title[1:]}.** {entry.cause}\n\n"
            f"```{'sh' if command else 'yaml'}\n{example}\n```\n\n{entry.remedy}"
        )
    return "\n\n".join(parts)
