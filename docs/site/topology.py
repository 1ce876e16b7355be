"""The reference of a topology's fields for docs/topology.md, from the pydantic models and the engines' verdicts."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from lbgen.engines.api import local_engines
from lbgen.plan.conditions import FEATURES
from lbgen.plan.features import ITEMS, Feature, all_features
from lbgen.spec import values
from lbgen.spec.model import TopologyModel
from lbgen.spec.pydantic_errors import models_of
from lbgen.spec.schema import schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import BaseModel

# How the types of lbgen.spec.values are called in the tables.
TYPES = {
    "Duration": "duration",
    "CertificateArn": "ARN",
    "ByteSize": "size",
    "Name": "name",
    "NetworkName": "docker network",
    "Cidr": "network",
    "IpAddress": "IP address",
    "HostName": "host name",
    "Method": "method",
    "Percent": "percentage",
    "Rate": "rate",
    "Regex": "RE2 regex",
    "Resolver": "DNS server",
    "PlainHost": "host",
    "Address": "host:port",
}
# Features whose name does not begin with the place of their field, and the field that asks for them.
PLACES = {
    "listener.l4.tcp": "listener.mode",
    "listener.l4.udp": "listener.protocol",
    "listener.l7": "listener.mode",
    "listener.timeouts": "client_timeouts",
    "match.host": "route.hosts",
    "match.host.wildcard": "route.hosts",
    "match.sni": "route.hosts",
    **{name: f"route.{name}" for name in FEATURES.values()},
    "pool.weights": "pool.endpoints.weight",
    "pool.weights.zero": "pool.endpoints.weight",
    "pool.backup": "pool.endpoints.backup",
    "pool.endpoint_names": "pool.endpoints.address",
    "pool.endpoint_ipv6": "pool.endpoints.address",
    "engines.verbatim": "engines",
    "engines.forwarding.direct": "engines.forwarding",
}
_ITEMS = {**ITEMS, "tiers": "tier"}
# Mappings with the fields of others, whose tables hold for both.
_LIKE = {"policies": "route", "defaults.route": "route", "defaults.pool": "pool"}


def fields() -> str:
    """Return a section with tables for each mapping of a topology, in the order of the models."""
    made = schema()
    names = {entry["pattern"]: word for entry, word in _patterns()}
    parts = []
    for place, model in _models(TopologyModel, ""):
        node = made if not place else _mapping(made["$defs"][model.__name__])
        title = f"`{place}`" if place else "The topology"
        sentences = re.split(r"(?<=\.) ", " ".join((model.__doc__ or "").split("\n\n")[0].split()))
        said = " ".join(each for each in sentences if "None" not in each)
        lines = [f"### {title}", "", said, "", "| field | type | default | bounds | meaning |", "|---|---|---|---|---|"]
        required = node.get("required", ())
        for field, entry in node["properties"].items():
            default = "**required**" if field in required else _default(entry)
            inner = f"{_LIKE.get(place, place)}.{field}" if place else _ITEMS.get(field, field)
            kind = _type(entry, names, made, re.sub(r"\.", "", inner))
            cells = (f"`{field}`", kind, default, _bounds(entry), entry.get("description", ""))
            lines.append("| " + " | ".join(_cell(text) for text in cells) + " |")
        found = [
            f for f in all_features() if _place(f) in {place, *(f"{place}.{x}".strip(".") for x in node["properties"])}
        ]
        parts.append("\n".join([*lines, *_verdicts(found)]))
    return "\n\n".join(parts)


def everywhere() -> str:
    """Return the verdicts on features that no field asks for alone: what every topology or a whole section needs."""
    return "\n".join(_verdicts([f for f in all_features() if _place(f) not in _known()])).strip()


@cache
def _known() -> frozenset[str]:
    """Return each place that a topology has: its mappings and their fields."""
    placed = tuple(_models(TopologyModel, ""))
    fields = {f"{place}.{field}".strip(".") for place, model in placed for field in model.model_fields}
    return frozenset(fields.union(place for place, _ in placed))


def _patterns() -> Iterator[tuple[dict[str, Any], str]]:
    for name, word in TYPES.items():
        if hasattr(values, name):
            entry = TypeAdapter(getattr(values, name)).json_schema()
            if "pattern" in entry:
                yield entry, word


def _models(model: type[BaseModel], place: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield each mapping with its place, such as `pool.health.active`; the mapping itself before those inside."""
    yield place, model
    for name, field in () if place in _LIKE else model.model_fields.items():
        inner = f"{place}.{name}" if place else _ITEMS.get(name, name)
        for each in models_of(field.annotation):
            yield from _models(each, inner)


def _mapping(node: dict[str, Any]) -> dict[str, Any]:
    return node if "properties" in node else next(each for each in node["anyOf"] if "properties" in each)


def _place(feature: Feature) -> str:
    """Return the field that asks for a feature: the longest known beginning of its name, or its name."""
    value = PLACES.get(feature, feature)
    parts = value.split(".")
    for end in range(len(parts), 0, -1):
        if (start := ".".join(parts[:end])) in _known():
            return start
    return value


def _type(node: dict[str, Any], names: dict[str, str], whole: dict[str, Any], anchor: str) -> str:
    """Return the type in words; a mapping of a known shape links to its own table."""
    if "$ref" in node:
        target = whole["$defs"][node["$ref"].rpartition("/")[2]]
        forms = [each for each in target.get("anyOf", ()) if "properties" not in each and "required" not in each]
        short = [_type(each, names, whole, anchor) for each in forms]
        return " or ".join(dict.fromkeys([*(x for x in short if x != "mapping"), f"[mapping](#{anchor})"]))
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{word}`" for word in node["enum"])
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_type(each, names, whole, anchor) for each in node["anyOf"]))
    if node.get("type") == "array":
        return f"list of {_type(node['items'], names, whole, anchor)}"
    if node.get("type") == "object":
        inner = node.get("additionalProperties")
        return f"mapping of {_type(inner, names, whole, anchor)}" if isinstance(inner, dict) else "mapping"
    if node.get("format") == "path":
        return "file"
    if node.get("pattern") in names:
        return names[node["pattern"]]
    return {"string": "text", "boolean": "true, false"}.get(node.get("type", ""), node.get("type", "any"))


def _default(node: dict[str, Any]) -> str:
    if "default" not in node or node["default"] in ([], {}):
        return "-"
    return f"`{json.dumps(node['default'])}`"


def _bounds(node: dict[str, Any]) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    texts = [f"{low} to {high}" if None not in (low, high) else f"at least {low}" if low is not None else ""]
    if low is None and high is not None:
        texts.append(f"at most {high}")
    if "exclusiveMinimum" in node:
        texts.append(f"above {node['exclusiveMinimum']}")
    for key, word in (("Items", "items"), ("Properties", "entries"), ("Length", "characters")):
        least, most = node.get(f"min{key}"), node.get(f"max{key}")
        if least is not None and most is not None:
            texts.append(f"{least} to {most} {word}")
        elif least or most:
            texts.append(f"at least {least} {word}" if least else f"at most {most} {word}")
    return ", ".join(filter(None, texts)) or "-"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _verdicts(features: list[Feature]) -> list[str]:
    """Return a table of levels, and the notes of all verdicts that have one below it."""
    if not features:
        return []
    targets = [(each, each.versions[0]) for each in local_engines().values()]
    lines = ["", "| feature | " + " | ".join(f"{t.title} {version}" for t, version in targets) + " |"]
    lines.append("|---" * (len(targets) + 1) + "|")
    notes = []
    for feature in features:
        found = [target.verdict(feature, version) for target, version in targets]
        lines.append(f"| `{feature}` | " + " | ".join(str(v.level) for v in found) + " |")
        for (target, _), verdict in zip(targets, found, strict=True):
            if verdict.note and verdict != target.verdict("listener.l7", target.versions[0]):  # said once, at L7
                notes.append(f"- `{feature}`, {target.title}, {verdict.level}: {_plain(verdict.note)}")
    if notes:
        lines += ["", "<details markdown><summary>Notes of these verdicts</summary>", "", *notes, "", "</details>"]
    return lines


def _plain(note: str) -> str:
    return note.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")
