"""Differences between two lists of headers, or an account and the literals of a case: one sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def combine_lines(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def header_differences(
    where: str, expected: Iterable[tuple[str, str]], got: Iterable[tuple[str, str]], free: Iterable[str]
) -> Iterator[str]:
    """Differences of two header lists by combined value; names in `free` may come or not."""
    want = {n: v for n, v in combine_lines(expected).items() if n not in free}
    have = {n: v for n, v in combine_lines(got).items() if n not in free}
    for name in sorted(want.keys() | have.keys()):
        if name not in have:
            yield f"{where}: {name} is missing, expected {want[name]!r}"
        elif name not in want:
            yield f"{where}: {name}: {have[name]!r} is there, expected none"
        elif not _equal(name, have[name], want[name]):
            yield f"{where}: {name}: {have[name]!r}, expected {want[name]!r}"


def _equal(name: str, have: str, want: str) -> bool:
    return _same_elements(have, want) if name == "vary" else _same(have, want)


def _same(have: str, want: str) -> bool:
    """Equal up to RFC 9110 5.6.1 (blanks and empty elements of a list); text beyond ASCII travels as UTF-8."""
    return _loose(have) in (_loose(want), _loose(want.encode().decode("latin-1")))


def _same_elements(have: str, want: str) -> bool:
    """Equal as sets of words, such as header names."""
    return {x.strip().lower() for x in have.split(",")} == {x.strip().lower() for x in want.split(",")}


def _loose(text: str) -> str:
    parts = [part.strip(" \t") for part in text.split(",")]
    return ",".join(lookup for lookup in parts if lookup) or ",".join(parts)


def lookup(account: dict[str, Any], path: str) -> object:
    """The part of an account that a dotted path names; None when it is not there."""
    found: object = account
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def literal_differences(where: str, want: dict[str, str | bool | None], have: dict[str, str]) -> Iterator[str]:
    for name, value in want.items():
        got = have.get(name)
        if value is None and got is not None:
            yield f"{where}: {name}: {got!r} is there, expected none"
        elif value is True and not got:
            yield f"{where}: {name} is missing"
        elif isinstance(value, str) and (got is None or not _equal(name, got, value)) and got != "\0":
            yield f"{where}: {name}: {got!r}, expected {value!r}"
