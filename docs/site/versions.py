"""The blocks of docs/versions.md: supported versions, and what differs between those of one engine.

Verdicts on single places of a topology are those of the conformance cases and of `_MORE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import lbgen
from lbgen.conformance.case import case_files
from lbgen.conformance.fingerprint import compare, read_stored, sent, stored
from lbgen.conformance.prepare import plan_of
from lbgen.engines.api import Engine, engines, version_key
from lbgen.plan.features import all_features

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

_SHOWN = 110  # characters of a probe


# The conformance cases have no such listener.
_MORE = {
    "version": 1,
    "name": "more",
    "profile": "minimal",
    "listeners": {"web": {"port": 8080, "trusted_proxies": ["10.0.0.0/8"], "access": {"allow": ["192.0.2.0/24"]}}},
    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}], "balance": "source_hash"}},
    "routes": [{"name": "r", "forward": "p"}],
}


@cache
def _plans() -> tuple[Plan, ...]:
    """Topologies that use every feature."""
    return (*(plan_of(file.topology) for file in case_files()), lbgen.plan(lbgen.load(_MORE)))


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
        found = [*_verdicts(target), *_objections(target), *_probes(target)]
        if found:
            lines += [f"### {target.title}", "", *found]
    return "\n".join(lines)


def _oldest_first(target: Engine) -> list[str]:
    return sorted(target.versions, key=version_key)


def _verdicts(target: Engine) -> list[str]:
    every = _oldest_first(target)
    rows = []
    for feature in all_features():
        verdicts = [target.verdict(feature, version) for version in every]
        if len({(x.level, x.note) for x in verdicts}) > 1:
            rows.append(
                f"| `{feature}` | " + " | ".join(_cell(f"{x.level}: {x.note}".rstrip(": ")) for x in verdicts) + " |"
            )
    if not rows:
        return []
    return ["| feature | " + " | ".join(every) + " |", "|---" * (len(every) + 1) + "|", *rows, ""]


def _objections(target: Engine) -> list[str]:
    """Verdicts on single places that not all versions have; those that differ in numbers alone are shown once."""
    every = _oldest_first(target)
    rows: dict[tuple[str, str], tuple[str, dict[str, None]]] = {}
    for version in every:
        for feature, text in _texts(target, version):
            key = (feature, re.sub(r"[\d.]+", "", text))
            rows.setdefault(key, (text, {}))[1][version] = None
    found = [
        f"| {', '.join(versions)} | {feature} | {_cell(text)} |"
        for (feature, _), (text, versions) in rows.items()
        if len(versions) < len(every)
    ]
    return ["| only | on single places | verdict |", "|---|---|---|", *found, ""] if found else []


def _texts(target: Engine, version: str) -> Iterator[tuple[str, str]]:
    for plan in _plans():
        for objection in target.objections(plan, version):
            note = objection.verdict.note.replace(f"{target.title} {version}", target.title)
            yield f"`{objection.feature}`" if objection.feature else "", f"{objection.verdict.level}: {note}"


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
