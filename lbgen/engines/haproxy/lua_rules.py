"""Rules with conditions -> a Lua file that holds them, for listeners with too many to try in statements.

HAProxy walks through all statements of a frontend for every request, whatever their conditions; a Lua function looks
only at the few rules that the request's path leaves open.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.quote import value_regex
from lbgen.plan.model import PathKind, ValueKind
from lbgen.plan.regex import literal_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lbgen.plan.model import NamedMatch, Rule

_OTHER = re.compile(r"[^A-Za-z0-9 _./=*+()-]+")


def text(value: str) -> str:
    """A Lua string; everything but letters, digits and a few marks is written as its bytes."""
    return f'"{_OTHER.sub(_bytes, value)}"'


def _bytes(found: re.Match[str]) -> str:
    return "".join(f"\\{byte:03d}" for byte in found[0].encode())


def rules_file(listener: str, rules: Iterable[tuple[Rule, str]], sets: Mapping[tuple[str, ...], str]) -> RenderedFile:
    """`rules` are (rule, name of its route key) in order of trial, `sets` the names of the lists of rule ids."""
    lines = [("-- Rules with conditions, and the sets that maps name.", ""), (f"lbgen_rules({text(listener)}, {{", "")]
    for rule, key in rules:
        lines.append((f"  [{text(rule.id)}] = {_rule(rule, key)},", rule.field))
    lines.append(("}, {", ""))
    for ids, name in sets.items():
        lines.append((f"  {name} = {{ {', '.join(map(text, ids))} }},", ""))
    lines.append(("})", ""))
    return RenderedFile(
        f"{listener}.rules.lua", "".join(f"{line}\n" for line, _ in lines), tuple(origin for _, origin in lines)
    )


def _rule(rule: Rule, key: str) -> str:
    match = rule.match
    parts = [f"route = {text(key)}"]
    if match.path.kind is PathKind.REGEX:
        parts.append(f"path = {text(match.path.value)}, start = {text(literal_start(match.path.value))}")
    if match.methods:
        parts.append(f"methods = {{ {', '.join(f'[{text(m)}] = true' for m in match.methods)} }}")
    for name, tests in (("headers", match.headers), ("query", match.query), ("cookies", match.cookies)):
        if tests:
            parts.append(f"{name} = {{ {', '.join(map(_test, tests))} }}")
    return f"{{ {', '.join(parts)} }}"


def _test(wanted: NamedMatch) -> str:
    pattern = wanted.value.value
    if wanted.value.kind is ValueKind.REGEX:
        pattern = value_regex(pattern)
    value = "" if wanted.value.kind is ValueKind.PRESENT else f", value = {text(pattern)}"
    return f'{{ name = {text(wanted.name)}, kind = "{wanted.value.kind}"{value} }}'
