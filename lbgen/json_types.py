"""Types of the JSON that commands print: the schemas are made from them, and mypy holds the printing code to them."""

from __future__ import annotations

from typing import NotRequired

from typing_extensions import TypedDict

from lbgen.severity import Severity


class Record(TypedDict):
    """A JSON object with these keys alone; the text below a key describes it."""


Record.__pydantic_config__ = {"extra": "forbid", "use_attribute_docstrings": True}  # type: ignore[attr-defined]


class PlaceRecord(Record):
    """A place in a file."""

    file: str
    line: int
    """Counts from 1; 0 = no line."""
    column: int
    """Counts from 1; 0 = no line."""


class FindingRecord(Record):
    """A finding."""

    code: str
    """Stable, such as LB104; docs/findings.md explains each."""
    severity: Severity
    file: str
    line: int
    """Counts from 1; 0 = no line."""
    column: int
    """Counts from 1; 0 = no line."""
    field: str
    """The topology field, such as routes[2].retries.max; may be empty."""
    message: str
    hint: str
    """The remedy; may be empty."""
    accept: NotRequired[str]
    """The word by which --accept lets it pass."""


class AccessRecord(Record):
    """A request in the access log, the same on every engine (docs/contract.md, 10.log)."""

    time: str
    """UTC, ISO 8601 with milliseconds."""
    listener: str
    route: str
    """Empty where no route serves it."""
    pool: str
    endpoint: str
    """ADDRESS:PORT of the last try; empty without one."""
    method: str
    host: str
    path: str
    """As it came, without the query."""
    status: int
    """0: the request ended without an answer."""
    duration_ms: float
    upstream_ms: float | None
    """null: no endpoint was tried."""
    tries: int
    bytes: int
    """Of the body that was sent."""
    request_id: str
