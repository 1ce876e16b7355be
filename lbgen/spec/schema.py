"""The JSON Schema of a topology, for editors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, TypeAdapter

from lbgen.spec.model import TopologyModel
from lbgen.spec.profile import names
from lbgen.spec.pydantic_errors import models_of

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

JsonSchema = dict[str, Any]
TITLE = "lbgen topology"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> JsonSchema:
    """JSON Schema (2020-12) that accepts what `load` accepts, short forms included.

    Each property has a description, an example and its default, or the description says what holds when it is left out.
    A load refuses more: references, files, regular expressions. What a profile of one's own adds is not seen.
    """
    made = TopologyModel.model_json_schema()
    definitions: dict[str, JsonSchema] = made["$defs"]
    for model in models_of_topology():
        properties = _object(definitions.get(model.__name__, made))["properties"]
        for name, field in model.model_fields.items():
            _complete(properties[name], field, definitions)
    made["properties"]["profile"] |= {"anyOf": [{"enum": list(names())}, {"type": "string", "pattern": r"/|\.ya?ml$"}]}
    tidied: JsonSchema = _tidied(made)
    head = {"$schema": _DIALECT, "title": TITLE}
    return {**head, **{key: value for key, value in tidied.items() if key != "title"}}


def models_of_topology() -> tuple[type[BaseModel], ...]:
    """The models of a topology, each once."""
    return tuple(dict.fromkeys(_with_inner(TopologyModel)))


def _with_inner(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The model and those of its fields."""
    yield model
    for field in model.model_fields.values():
        for inner in models_of(field.annotation):
            yield from _with_inner(inner)


def _object(node: JsonSchema) -> JsonSchema:
    """The schema of the mapping, of a node that may also allow short forms."""
    return node if "properties" in node else next(x for x in node["anyOf"] if "properties" in x)


def _complete(node: JsonSchema, field: FieldInfo, definitions: dict[str, JsonSchema]) -> None:
    """Write the default as a user writes it, and an example where the field gives none."""
    node.pop("default", None)
    if not field.is_required() and (value := field.get_default(call_default_factory=True)) is not None:
        kind: Any = Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
        node["default"] = TypeAdapter(kind).dump_python(value, mode="json")
    if "examples" not in node and (found := _examples(node, node.get("default"), definitions)):
        node["examples"] = found


def _examples(node: JsonSchema, default: object, definitions: dict[str, JsonSchema]) -> list[Any]:
    """The examples of a type: its own, else the words it takes, without `default`."""
    if "$ref" in node:
        node = definitions[node["$ref"].rpartition("/")[2]]
    if "examples" in node:
        return list(node["examples"])
    if "const" in node:
        return [node["const"]]
    if "enum" in node:
        return [word for word in node["enum"] if word != default]
    if node.get("type") == "boolean":
        return [not default]
    if node.get("type") == "array":
        return [found[:2]] if (found := _examples(node["items"], None, definitions)) else []
    choices = (_examples(choice, default, definitions) for choice in node.get("anyOf", ()))
    return next((found for found in choices if found), [])


def _tidied(node: Any) -> Any:  # noqa: ANN401  # any JSON
    """Without `null`, which no topology may hold, and without the titles that pydantic makes of names; a pattern of
    keys holds for all keys."""
    if isinstance(node, list):
        return [_tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {k: _tidied(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    if keys := tidy.pop("patternProperties", None):
        ((pattern, values),) = keys.items()
        tidy |= {"propertyNames": {"pattern": pattern}, "additionalProperties": values}
    choices = [choice for choice in tidy.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del tidy["anyOf"]
        return {**choices[0], **tidy}
    if choices:
        tidy["anyOf"] = choices
    return tidy
