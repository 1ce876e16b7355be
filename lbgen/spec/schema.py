"""The JSON Schema of a topology, for editors."""

from __future__ import annotations

from typing import Any

from lbgen.spec.model import TopologyModel


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) that accepts what `load` accepts, short forms included.

    It says less than a load does: an editor's help, not the judge.
    """
    tidied: dict[str, Any] = _tidied(TopologyModel.model_json_schema(mode="validation"))
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "lbgen topology"}
    return {**head, **{key: value for key, value in tidied.items() if key != "title"}}


def _tidied(node: Any) -> Any:  # noqa: ANN401  # any JSON
    """Without `null`, which no topology may hold, and without the titles that pydantic makes of names."""
    if isinstance(node, list):
        return [_tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {k: _tidied(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    if tidy.get("default", 0) is None:
        del tidy["default"]
    choices = [choice for choice in tidy.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        del tidy["anyOf"]
        return {**choices[0], **tidy}
    if choices:
        tidy["anyOf"] = choices
    return tidy
