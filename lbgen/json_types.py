"""Types of the JSON that several commands print; `lbgen schema --of` makes the schemas from them."""

from __future__ import annotations

from typing import Annotated, NotRequired

from msgspec import Meta, Struct
from typing_extensions import TypedDict

from lbgen.severity import Severity

_Line = Annotated[int, Meta(description="Counts from 1; 0 = no line.")]


class Printed(Struct, frozen=True):
    """A data class whose fields are its JSON."""


class Record(TypedDict):
    """A JSON object with these keys alone."""


class FindingRecord(Record):
    """A finding."""

    code: Annotated[str, Meta(description="Stable, such as LB104; docs/findings.md explains each.")]
    severity: Severity
    file: str
    line: _Line
    column: _Line
    field: Annotated[str, Meta(description="The topology field, such as routes[2].retries.max; may be empty.")]
    message: str
    hint: Annotated[str, Meta(description="The remedy; may be empty.")]
    accept: NotRequired[Annotated[str, Meta(description="The word by which --accept lets it pass.")]]


class AccessRecord(Record):
    """A request in the access log, the same on every engine (docs/contract.md, 10.log)."""

    time: Annotated[str, Meta(description="UTC, ISO 8601 with milliseconds.")]
    listener: str
    route: Annotated[str, Meta(description="Empty where no route serves it.")]
    pool: str
    endpoint: Annotated[str, Meta(description="ADDRESS:PORT of the last try; empty without one.")]
    method: str
    host: str
    path: Annotated[str, Meta(description="As it came, without the query.")]
    status: Annotated[int, Meta(description="0: the request ended without an answer.")]
    duration_ms: float
    upstream_ms: Annotated[float | None, Meta(description="null: no endpoint was tried.")]
    tries: int
    bytes: Annotated[int, Meta(description="Of the body that was sent.")]
    request_id: str
