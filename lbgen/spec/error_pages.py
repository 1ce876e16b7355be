"""Error pages: what clients get instead of an engine's own text, by status."""

import re
from typing import Annotated, Self

from pydantic import Field, ModelWrapValidatorHandler, PlainValidator, WithJsonSchema, model_validator

from lbgen.spec.base import Strict, exactly_one, needs_one_of
from lbgen.spec.value_errors import invalid, require_text, shorten
from lbgen.spec.values import BodyText, FilePath, HeaderText

_KEY = r"[45](?:[0-9]{2}|xx)"
_STATUSES = (200, *range(400, 600))


def parse_error_key(value: object) -> str:
    """`404`, `4xx` or `5xx`; LB123 otherwise."""
    key = require_text("a status", value)
    if not re.fullmatch(_KEY, key):
        hint = f"write {key.lower()}" if re.fullmatch(_KEY, key.lower()) else "write 404, or 4xx or 5xx for all of them"
        raise invalid("LB123", f'"{shorten(key)}" is not the status of an error', hint)
    return key


def parse_page_status(value: object) -> int:
    """200, or 400 to 599; LB123 otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value not in _STATUSES:
        raise invalid(
            "LB123", f"{shorten(str(value))} is not allowed as the status of a page", "write 200, or 400 to 599"
        )
    return value


ErrorKey = Annotated[
    str,
    PlainValidator(parse_error_key),
    WithJsonSchema({"type": "string", "pattern": f"^{_KEY}$", "examples": ["5xx"]}),
]
PageStatus = Annotated[
    int,
    PlainValidator(parse_page_status),
    WithJsonSchema({"anyOf": [{"const": 200}, {"type": "integer", "minimum": 400, "maximum": 599}]}),
]


class ErrorPage(Strict):
    """An answer in place of the engine's own text; exactly one of `file`, `body` is set."""

    model_config = exactly_one("file", "body")

    file: FilePath | None = Field(
        default=None,
        description="a text file with the body, at most 64 KiB, read when the topology is, literal; no default",
        examples=["errors/503.html"],
    )
    body: BodyText | None = Field(
        default=None,
        description="the body itself, which may hold placeholders; no default",
        examples=['{"error":"unavailable","id":"{request_id}"}'],
    )
    content_type: HeaderText | None = Field(
        default=None,
        description="its media type; that of the file's extension (.html, .json), else text/plain, when left out",
        examples=["application/json"],
    )
    status: PageStatus | None = Field(
        default=None, description="replaces the status; it stays when left out", examples=[503]
    )
    intercept: bool = Field(
        default=False, description="also replaces endpoints' own answers of that status; only the engine's when false"
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return needs_one_of(data, handler, "file", "body", what="an error page")


ErrorPages = Annotated[dict[ErrorKey, ErrorPage], Field(min_length=1)]
