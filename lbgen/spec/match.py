"""Conditions of routes: path, methods, headers, query, cookies."""

from typing import Annotated, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from lbgen.spec.base import TEXT, OrWord, Strict, at_least_one, exactly_one, needs_one_of, no_case_twins
from lbgen.spec.value_errors import invalid, shorten, wrong_type
from lbgen.spec.values import (
    Cidr,
    CookieName,
    MatchedHeader,
    MatchHeaderText,
    MatchText,
    Method,
    QueryName,
    Regex,
    UrlPath,
)

_SUBJECTS = ("methods", "headers", "query", "cookies", "sources")
_OPERATORS = ("exact", "regex", "present", "absent")


class PathMatch(Strict):
    """Exactly one is set. A prefix covers whole segments; `/api/` and `/api` are the same prefix."""

    model_config = exactly_one("exact", "prefix", "regex")

    exact: UrlPath | None = Field(default=None, description="the exact path; no default", examples=["/login"])
    prefix: UrlPath | None = Field(
        default=None,
        description="whole segments: /api covers /api and /api/x, not /apix; no default",
        examples=["/api"],
    )
    regex: Regex | None = Field(
        default=None, description="RE2 syntax; matches the whole path; no default", examples=["/users/[0-9]+"]
    )

    @model_validator(mode="wrap")
    @classmethod
    def _one(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(data, str):
            raise wrong_type("a mapping", data, f"write path: {{ prefix: {shorten(data)} }}, or exact, or regex")
        return needs_one_of(data, handler, "exact", "prefix", "regex", what="path")


class ValueMatch(OrWord):
    """How a value is compared: `"text"`, `{ regex: ... }`, `{ present: true }` or `{ absent: true }`; exactly one is
    set."""

    word = "exact"
    words = TEXT
    choices, what = _OPERATORS, "a value"

    model_config = exactly_one(*_OPERATORS)

    exact: MatchText | None = Field(
        default=None,
        description="the exact value; the short form is the text alone; no default",
        examples=["beta"],
    )
    regex: Regex | None = Field(
        default=None, description="RE2 syntax; matches the whole value; no default", examples=["v[0-9]+"]
    )
    present: Literal[True] | None = Field(
        default=None, description="the value is present and not empty; no default", examples=[True]
    )
    absent: Literal[True] | None = Field(
        default=None,
        description="the opposite of present: there is no value, or an empty one; no default",
        examples=[True],
    )


class HeaderMatch(ValueMatch):
    """Like ValueMatch; a header's value has no blanks at its ends."""

    exact: MatchHeaderText | None = Field(
        default=None,
        description="the exact value; the short form is the text alone; no default",
        examples=["beta"],
    )


class Unless(Strict):
    """None of its conditions may hold: of the method, of the client, and of each header, parameter and cookie that is
    named."""

    model_config = at_least_one(*_SUBJECTS)

    methods: list[Method] | None = Field(
        default=None, min_length=1, description="any method but these; no default", examples=[["POST"]]
    )
    headers: Annotated[dict[MatchedHeader, HeaderMatch], Field(min_length=1), no_case_twins] | None = Field(
        default=None,
        description="names in any case; no line of such a header may match; no default",
        examples=[{"x-internal": {"present": True}}],
    )
    query: dict[QueryName, ValueMatch] | None = Field(
        default=None,
        min_length=1,
        description="first parameter of that name, percent-decoded; no default",
        examples=[{"preview": "1"}],
    )
    cookies: dict[CookieName, ValueMatch] | None = Field(
        default=None, min_length=1, description="first cookie of that name; no default", examples=[{"plan": "free"}]
    )
    sources: list[Cidr] | None = Field(
        default=None,
        min_length=1,
        description="networks of clients, as in a match; no default",
        examples=[["10.0.0.0/8"]],
    )

    @model_validator(mode="wrap")
    @classmethod
    def _any(cls, data: object, handler: "ModelWrapValidatorHandler[Self]") -> Self:
        return needs_one_of(data, handler, *_SUBJECTS, many=True, what="unless")


class Match(Strict):
    """All parts must hold. A match without `path` covers every path."""

    path: PathMatch | None = Field(
        default=None, description="exact, prefix or regex; every path when left out", examples=[{"prefix": "/api"}]
    )
    methods: list[Method] | None = Field(
        default=None,
        min_length=1,
        description="GET does not cover HEAD; every method when left out",
        examples=[["GET", "HEAD"]],
    )
    headers: Annotated[dict[MatchedHeader, HeaderMatch], Field(min_length=1), no_case_twins] | None = Field(
        default=None,
        description="names in any case; any line of a header may match; not looked at when left out",
        examples=[{"x-canary": "always"}],
    )
    query: dict[QueryName, ValueMatch] | None = Field(
        default=None,
        min_length=1,
        description="first parameter of that name, percent-decoded; not looked at when left out",
        examples=[{"beta": "1"}],
    )
    cookies: dict[CookieName, ValueMatch] | None = Field(
        default=None,
        min_length=1,
        description="first cookie of that name; not looked at when left out",
        examples=[{"plan": "gold"}],
    )
    sources: list[Cidr] | None = Field(
        default=None,
        min_length=1,
        description="networks of clients, by the address that `access` sees, longest first; every client when left out",
        examples=[["10.0.0.0/8"]],
    )
    unless: Unless | None = Field(
        default=None,
        description="conditions none of which may hold; no default",
        examples=[{"headers": {"x-internal": {"present": True}}}],
    )

    @model_validator(mode="before")
    @classmethod
    def _not_empty(cls, data: object) -> object:
        if data == {}:
            raise invalid(
                "LB126", "an empty match", "leave match out to cover every request, or write path: { prefix: / }"
            )
        return data
