"""The reference of what commands print with --json, for docs/json.md, from the schemas of `lbgen schema --of`."""

from __future__ import annotations

from functools import cache
from typing import Any

from lbgen.cli.schema import ANSWERS, schema_of


def answers() -> str:
    """Return a table of the commands, and one for each kind of object in their answers."""
    objects: dict[str, dict[str, Any]] = {}
    rows = []
    for command in ANSWERS:
        schema = schema_of(command)
        objects |= schema.get("$defs", {})
        rest = {key: value for key, value in schema.items() if key not in {"$schema", "title", "$defs"}}
        rows.append(f"| `lbgen {command} --json` | {_kind(rest)} |")
    objects = {name: each for name, each in objects.items() if "properties" in each}
    parts = ["| command | prints |\n|---|---|\n" + "\n".join(rows)]
    parts += [_section(name, objects[name]) for name in sorted(objects)]
    return "\n\n".join(parts)


def _section(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{key}` | {_kind(each)} | {'' if key in required else 'not always there. '}{_text(each)} |"
        for key, each in schema["properties"].items()
    ]
    about = _text(schema)
    return "\n".join([f"## {name}", "", *([about, ""] if about else []), "| key | value | |", "|---|---|---|", *rows])


def _text(schema: dict[str, Any]) -> str:
    return " ".join(str(schema.get("description", "")).split()).replace("|", "\\|")


def _kind(schema: dict[str, Any]) -> str:
    """The kind of a value in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})" if name not in _enums() else _enums()[name]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return "text"
    match schema.get("type"):
        case "array":
            pair = schema.get("prefixItems")
            return f"[{', '.join(map(_kind, pair))}]" if pair else f"list of {_inner(schema['items'])}"
        case "object":
            return f"mapping of names to {_inner(schema['additionalProperties'])}"
        case "boolean":
            return "true, false"
        case None:
            return "any"
        case word:
            return {"string": "text", "number": "number", "integer": "integer", "null": "null"}[word]


def _inner(schema: dict[str, Any]) -> str:
    """The kind of what is inside a list or a mapping."""
    kind = _kind(schema)
    return f"({kind})" if " or " in kind else kind


@cache
def _enums() -> dict[str, str]:
    """The words of each type that is one of a few words, by its name in schemas."""
    found: dict[str, str] = {}
    for command in ANSWERS:
        for name, each in schema_of(command).get("$defs", {}).items():
            if "enum" in each:
                found[name] = ", ".join(f"`{word}`" for word in each["enum"]) if len(each["enum"]) < 8 else "text"
            elif "properties" not in each:
                found[name] = "any"
    return found
