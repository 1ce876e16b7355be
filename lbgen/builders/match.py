"""Mappings of a topology that lbgen/spec/match.py describes.

Generated from lbgen/spec by docs/site/generate.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class PathMatch(TypedDict, total=False):
    """Exactly one is set. A prefix covers whole segments; `/api/` and `/api` are the same prefix."""

    exact: str
    """the exact path; no default"""
    prefix: str
    """whole segments: /api covers /api and /api/x, not /apix; no default"""
    regex: str
    """RE2 syntax; matches the whole path; no default"""


class HeaderMatch(TypedDict, total=False):
    """Like ValueMatch; a header's value has no blanks at its ends."""

    exact: str
    """the exact value; the short form is the text alone; no default"""
    regex: str
    """RE2 syntax; matches the whole value; no default"""
    present: Literal[True]
    """the value is present and not empty; no default"""
    absent: Literal[True]
    """the opposite of present: there is no value, or an empty one; no default"""


class ValueMatch(TypedDict, total=False):
    """How a value is compared: `"text"`, `{ regex: ... }`, `{ present: true }` or `{ absent: true }`; exactly
    one is set."""

    exact: str
    """the exact value; the short form is the text alone; no default"""
    regex: str
    """RE2 syntax; matches the whole value; no default"""
    present: Literal[True]
    """the value is present and not empty; no default"""
    absent: Literal[True]
    """the opposite of present: there is no value, or an empty one; no default"""


class Unless(TypedDict, total=False):
    """None of its conditions may hold: of the method, and of each header, parameter and cookie that is named."""

    methods: Sequence[str]
    """any method but these; no default"""
    headers: Mapping[str, str | HeaderMatch]
    """names in any case; no line of such a header may match; no default"""
    query: Mapping[str, str | ValueMatch]
    """first parameter of that name, percent-decoded; no default"""
    cookies: Mapping[str, str | ValueMatch]
    """first cookie of that name; no default"""


class Match(TypedDict, total=False):
    """All parts must hold. A match without `path` covers every path."""

    path: PathMatch
    """exact, prefix or regex; every path when left out"""
    methods: Sequence[str]
    """GET does not cover HEAD; every method when left out"""
    headers: Mapping[str, str | HeaderMatch]
    """names in any case; any line of a header may match; not looked at when left out"""
    query: Mapping[str, str | ValueMatch]
    """first parameter of that name, percent-decoded; not looked at when left out"""
    cookies: Mapping[str, str | ValueMatch]
    """first cookie of that name; not looked at when left out"""
    unless: Unless
    """conditions none of which may hold; no default"""
