"""Types of the mappings of a topology for lbgen/builders, from the models: one module for each of lbgen/spec."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

from lbgen.spec.declare import pydantic_model
from lbgen.spec.model import TopologyModel
from lbgen.spec.schema import models_of_topology, schema

ROOT = "Topology"
_SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
_HEAD = '''"""{about}

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

'''


def modules() -> dict[str, str]:
    """Return the text of each module of lbgen/builders, by file name."""
    made = schema()
    objects = {model: made["$defs"].get(model.__name__, made) for model in models_of_topology()}
    homes = {_name(model): model.__module__.rpartition(".")[2] for model in objects}
    texts: dict[str, str] = {}
    for home in dict.fromkeys(homes.values()):
        inside = {_name(model): node for model, node in objects.items() if homes[_name(model)] == home}
        ordered = sorted(inside, key=lambda name: _depth(name, made, set()))
        body = "\n\n".join(_class(name, inside[name], made) for name in ordered)
        others = sorted({homes[each] for name in inside for each in _named(inside[name], made)} - {home})
        imports = [
            f"from lbgen.builders.{x} import {', '.join(sorted(n for n in homes if homes[n] == x))}" for x in others
        ]
        head = _HEAD.format(about=f"Mappings of a topology that lbgen/spec/{home}.py describes.")
        typing = "from collections.abc import Mapping, Sequence\nfrom typing import Literal, Required, TypedDict\n\n"
        texts[f"{home}.py"] = head + typing + "\n".join(imports) + "\n\n" + body
    names = sorted(homes)
    lines = [f"from lbgen.builders.{homes[name]} import {name}" for name in names]
    about = "Types of the mappings that `load`, `Topology.replace` and its like take, for editors and type checkers."
    exports = "__all__ = [" + ", ".join(f'"{name}"' for name in names) + "]\n"
    texts["__init__.py"] = _HEAD.format(about=about) + "\n".join(lines) + "\n\n" + exports
    return {name: _formatted(text) for name, text in texts.items()}


def _all_of(home: str, homes: dict[str, str]) -> str:
    return ", ".join(sorted(name for name in homes if homes[name] == home))


def _name(model: type) -> str:
    return ROOT if model is pydantic_model(TopologyModel) else model.__name__


def _object(node: dict[str, Any]) -> dict[str, Any]:
    """The schema of the mapping, of a node that may also allow short forms."""
    return node if "properties" in node else next(x for x in node["anyOf"] if "properties" in x)


def _named(node: object, made: dict[str, Any]) -> set[str]:
    """The names of the types that a node refers to."""
    if isinstance(node, list):
        return {name for item in node for name in _named(item, made)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].rpartition("/")[2]} if "$ref" in node else set()
    return own | {name for key, item in node.items() if key not in {"$defs", "examples"} for name in _named(item, made)}


def _depth(name: str, made: dict[str, Any], above: set[str]) -> int:
    """How many types are inside a type, so that those come first."""
    node = made if name == ROOT else made["$defs"][name]
    inner = _named({"properties": _object(node)["properties"]}, made) - above
    return 1 + max((_depth(each, made, above | {name}) for each in inner), default=0)


def _class(name: str, node: dict[str, Any], made: dict[str, Any]) -> str:
    inside = _object(node)
    about = " ".join(str(node.get("description") or inside.get("description") or f"A {name}.").split())
    if isinstance(inside.get("additionalProperties"), dict):  # its other keys are free
        return f"{name} = Mapping[str, {_type(inside['additionalProperties'], made)}]\n{_doc(about)}\n"
    lines = [f"class {name}(TypedDict, total=False):", textwrap.indent(_doc(about), "    "), ""]
    required = inside.get("required", ())
    for key, each in inside["properties"].items():
        kind = _type(each, made)
        lines.append(f"    {key}: {f'Required[{kind}]' if key in required else kind}")
        if text := " ".join(str(each.get("description", "")).split()):
            lines.append(textwrap.indent(_doc(text), "    "))
    return "\n".join(lines) + "\n"


def _doc(text: str) -> str:
    wrapped = "\n".join(textwrap.wrap(text.replace("\\", "\\\\"), 105))
    return f'"""{wrapped}"""'


def _type(node: dict[str, Any], made: dict[str, Any]) -> str:
    """The type of a value as Python writes it."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        target = made["$defs"][name]
        if "properties" in target:
            return name
        return " | ".join(dict.fromkeys(name if "properties" in x else _type(x, made) for x in target["anyOf"]))
    if "anyOf" in node:
        return " | ".join(dict.fromkeys(_type(each, made) for each in node["anyOf"]))
    if "const" in node or "enum" in node:
        return f"Literal[{', '.join(map(repr, node.get('enum', [node.get('const')])))}]"
    match node.get("type"):
        case "array":
            return f"Sequence[{_type(node['items'], made)}]"
        case "object":
            inner = node.get("additionalProperties")
            return f"Mapping[str, {_type(inner, made) if isinstance(inner, dict) else 'object'}]"
        case str(word):
            return _SCALARS[word]
        case _:
            return "object"


def _formatted(text: str) -> str:
    """The text as ruff formats it, without unused imports."""
    for words in (("check", "--fix-only", "--quiet"), ("format",)):
        argv = [sys.executable, "-m", "ruff", *words, "--stdin-filename", "lbgen/builders/generated.py", "-"]
        text = subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603
    return text
