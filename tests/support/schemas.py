"""JSON of commands against its published schema."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema

from lbgen.cli.schema import schema_of


@cache
def validator(command: str) -> Any:
    """The validator of what a command prints with --json."""
    schema = schema_of(command)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def valid(command: str, text: str) -> Any:
    """The JSON in the text, which fits the schema of the command."""
    answer = json.loads(text)
    validator(command).validate(answer)
    return answer
