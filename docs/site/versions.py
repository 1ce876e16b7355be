"""The blocks of docs/versions.md: supported versions, and what differs between those of one engine."""

from __future__ import annotations

from itertools import pairwise

from lbgen.conformance.fingerprint import compare, read_stored, sent, stored
from lbgen.engines.api import Engine, engines, version_key
from lbgen.plan.features import Feature

_SHOWN = 110  # characters of a probe


def versions() -> str:
    """Return the table of supported versions, the default of each engine first in bold."""
    lines = ["| engine | versions |", "|---|---|"]
    for target in engines().values():
        every = [f"**{v}**" if v == target.versions[0] else v for v in _oldest_first(target)]
        lines.append(f"| {target.title} | {', '.join(every)} |")
    return "\n".join(lines) + "\n"


def differences() -> str:
    """Return a section for each engine whose versions differ: verdicts, and the probes that an upgrade changes."""
    lines: list[str] = []
    for target in engines().values():
        found = [*_verdicts(target), *_probes(target)]
        if found:
            lines += [f"### {target.title}", "", *found]
    return "\n".join(lines)


def _oldest_first(target: Engine) -> list[str]:
    return sorted(target.versions, key=version_key)


def _verdicts(target: Engine) -> list[str]:
    every = _oldest_first(target)
    rows = []
    for feature in Feature:
        verdicts = [target.verdict(feature, version) for version in every]
        if len({(x.level, x.note) for x in verdicts}) > 1:
            rows.append(
                f"| `{feature}` | " + " | ".join(_cell(f"{x.level}: {x.note}".rstrip(": ")) for x in verdicts) + " |"
            )
    if not rows:
        return []
    return ["| feature | " + " | ".join(every) + " |", "|---" * (len(every) + 1) + "|", *rows, ""]


def _probes(target: Engine) -> list[str]:
    lines = []
    there = [version for version in _oldest_first(target) if f"{target.name}-{version}" in stored()]
    for old, new in pairwise(there):
        found = [x for x in compare(read_stored(target.name, old), read_stored(target.name, new)) if sent(x.probe)]
        count = "one probe is" if len(found) == 1 else f"{len(found) or 'no'} probes are"
        lines += [f"From {old} to {new} {count} answered differently.", ""]
        for each in found:
            data = ascii(sent(each.probe).decode("latin-1"))[1:-1]
            shown = data if len(data) <= _SHOWN else f"{data[:_SHOWN]}..."
            lines.append(f"- `{shown.replace('`', chr(39))}`")
            lines += [
                f"    - {mark} {_code(line)}"
                for mark, part in (("before:", each.before), ("after:", each.after))
                for line in part
            ]
        if found:
            lines.append("")
    return lines


def _code(line: str) -> str:
    shown = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}..."
    return f"`{shown.replace('`', chr(39))}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
