"""Generates a short text that a regular expression matches, for requests that must reach a rule."""

from __future__ import annotations

import re
from re import _constants as codes  # type: ignore[attr-defined]  # no public way to walk a parsed expression
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_PREFERRED = "a0A-_/.~ "
_CLASSES = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: "-",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
}


def regex_example(pattern: str) -> str | None:
    """Return a text that `pattern` matches as a whole; None when none was found."""
    try:
        parsed = parser.parse(pattern)
        texts = (_any_of(parsed, once) for once in (1, 0))
        return next((text for text in texts if re.fullmatch(pattern, text)), None)
    except (re.error, ValueError, RecursionError):
        return None


def _any_of(items: Any, once: int) -> str:  # noqa: ANN401 - the parser's own untyped tree
    """`once` is how often optional parts are repeated."""
    return "".join(_one(code, argument, once) for code, argument in items)


def _one(code: object, argument: Any, once: int) -> str:  # noqa: ANN401
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return next(x for x in _PREFERRED if ord(x) != argument)
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _member(argument)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, most, inner = argument
        return _any_of(inner, once) * int(least or min(once, most))
    if code is codes.SUBPATTERN:
        return _any_of(argument[3], once)
    if code is codes.BRANCH:
        return _any_of(argument[1][0], once)
    if code is codes.AT:
        return ""
    raise ValueError(f"{code} is not portable")


def _member(items: Any) -> str:  # noqa: ANN401
    negated = items[0][0] is codes.NEGATE
    if not negated:
        code, argument = items[0]
        if code is codes.RANGE:
            return chr(argument[0])
        return _CLASSES[argument] if code is codes.CATEGORY else chr(argument)
    for candidate in _PREFERRED:
        if not any(_holds(code, argument, candidate) for code, argument in items[1:]):
            return candidate
    raise ValueError("no member found")


def _holds(code: object, argument: Any, text: str) -> bool:  # noqa: ANN401
    if code is codes.LITERAL:
        return bool(ord(text) == argument)
    if code is codes.RANGE:
        return bool(argument[0] <= ord(text) <= argument[1])
    kinds = {
        codes.CATEGORY_DIGIT: text.isdigit(),
        codes.CATEGORY_WORD: text.isalnum() or text == "_",
        codes.CATEGORY_SPACE: text.isspace(),
    }
    for positive, negative in (
        (codes.CATEGORY_DIGIT, codes.CATEGORY_NOT_DIGIT),
        (codes.CATEGORY_WORD, codes.CATEGORY_NOT_WORD),
        (codes.CATEGORY_SPACE, codes.CATEGORY_NOT_SPACE),
    ):
        kinds[negative] = not kinds[positive]
    return bool(kinds[argument])
