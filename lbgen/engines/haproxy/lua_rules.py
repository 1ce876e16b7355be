"""A Lua file with the rules of a listener that has too many conditions for statements.

HAProxy evaluates the ACLs of every statement of a frontend for every request; a Lua function tries only the few rules
that remain for the request's path.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.quote import value_regex
from lbgen.plan.model import PathKind, ValueKind
from lbgen.plan.regex import literal_start

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lbgen.plan.model import NamedMatch, Rule

_ESCAPED = re.compile(r"[^A-Za-z0-9 _./=*+()-]+")


def lua_string(value: str) -> str:
    """`value` as a Lua string; all but letters, digits and a few marks become byte escapes."""
    return f'"{_ESCAPED.sub(_bytes, value)}"'


def _bytes(match: re.Match[str]) -> str:
    return "".join(f"\\{byte:03d}" for byte in match[0].encode())


def lua_set(values: Iterable[str]) -> str:
    """A Lua table whose keys are `values`."""
    return f"{{ {', '.join(f'[{lua_string(value)}] = true' for value in values)} }}"


def lua_file(name: str, lines: Sequence[tuple[str, str]]) -> RenderedFile:
    """A file of (line, topology field)."""
    return RenderedFile(name, "".join(f"{line}\n" for line, _ in lines), tuple(origin for _, origin in lines))


def rules_file(listener: str, rules: Iterable[tuple[Rule, str]], sets: Mapping[tuple[str, ...], str]) -> RenderedFile:
    """`rules` are (rule, name of its route key) in order of precedence, `sets` the names of the lists of rule ids."""
    lines = [
        ("-- Rules with conditions, and the sets of rules that maps name.", ""),
        (f"lbgen_rules({lua_string(listener)}, {{", ""),
        *((f"  [{lua_string(rule.id)}] = {_rule(rule, key)},", rule.field) for rule, key in rules),
        ("}, {", ""),
        *((f"  {name} = {{ {', '.join(map(lua_string, ids))} }},", "") for ids, name in sets.items()),
        ("})", ""),
    ]
    return lua_file(f"{listener}.rules.lua", lines)


def _rule(rule: Rule, key: str) -> str:
    match = rule.match
    parts = [f"route = {lua_string(key)}"]
    if match.path.kind is PathKind.REGEX:
        parts.append(f"path = {lua_string(match.path.value)}, start = {lua_string(literal_start(match.path.value))}")
    if match.methods:
        parts.append(f"methods = {lua_set(match.methods)}")
    for name, tests in (("headers", match.headers), ("query", match.query), ("cookies", match.cookies)):
        if tests:
            parts.append(f"{name} = {{ {', '.join(map(_test, tests))} }}")
    return f"{{ {', '.join(parts)} }}"


def _test(match: NamedMatch) -> str:
    pattern = match.value.value
    if match.value.kind is ValueKind.REGEX:
        pattern = value_regex(pattern)
    value = "" if match.value.kind is ValueKind.PRESENT else f", value = {lua_string(pattern)}"
    return f'{{ name = {lua_string(match.name)}, kind = "{match.value.kind}"{value} }}'
