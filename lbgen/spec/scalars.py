"""Reads an unquoted YAML scalar by the 1.2 core schema; refuses those that YAML 1.1 reads differently."""

from __future__ import annotations

import re

# Every unquoted scalar that may be something else than text begins with one of these, or is one of the words.
_FIRST = frozenset("+-.0123456789~=<")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}
_YES_NO = {
    **dict.fromkeys(("yes", "Yes", "YES", "on", "On", "ON"), "true"),
    **dict.fromkeys(("no", "No", "NO", "off", "Off", "OFF"), "false"),
}
_ONE_LETTER = frozenset("yYnN")  # truth values to the letter of YAML 1.1, text to nearly every reader
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_OCTAL = re.compile(r"0o[0-7]+")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
# What YAML 1.1 alone reads as a number or a date.
_OLD_BINARY = re.compile(r"[-+]?0b[01_]+")
_OLD_UNDERSCORE = re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|[-+]?0x[0-9a-fA-F]*_[0-9a-fA-F_]*")
_OLD_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_OLD_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?")
_LONGEST_NUMBER = 30

Scalar = str | int | float | bool | None


class Unusable(Exception):  # noqa: N818  # not an error of the program: it becomes a finding
    """A scalar that cannot be read: code, message and hint of the finding."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint


def read_scalar(written: str, *, key: bool = False) -> Scalar:
    """The value of an unquoted scalar; raises Unusable. As a key, a word such as `on` is text."""
    if written in _WORDS:
        return _WORDS[written]
    if written in _YES_NO:
        if key:
            return written
        raise _differs(written, f"write {_YES_NO[written]}")
    if written[0] not in _FIRST:
        return written
    return _number(written)


def is_plain_text(text: str) -> bool:
    """Whether `text` written without quotes is read as this very text by YAML 1.1 and 1.2 (indicators not judged)."""
    if text in _WORDS or text in _YES_NO or text in _ONE_LETTER:
        return False
    try:
        return text[0] not in _FIRST or isinstance(_number(text), str)
    except Unusable:
        return False


def _number(written: str) -> Scalar:
    if written[0] != "0" and len(written) <= _LONGEST_NUMBER and written.isascii() and written.isdigit():
        return int(written)
    if len(written) > _LONGEST_NUMBER and (_INT.fullmatch(written) or _FLOAT.fullmatch(written)):
        raise Unusable("LB104", f"a number of {len(written)} characters", "quote it if it is text")
    if _INT.fullmatch(written):
        digits = written.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            numbers = [str(int(written))]
            if not set(digits) & {"8", "9"}:
                numbers.append(str(int(written, 8)))
            raise _differs(written, f"write {' or '.join(numbers)}")
        return int(written)
    if _HEX.fullmatch(written):
        return int(written, 16) if len(written) <= _LONGEST_NUMBER else written
    if _OCTAL.fullmatch(written):
        raise _differs(written, f"write {int(written, 8)}")
    if _FLOAT.fullmatch(written):
        if "e" in written.lower():
            raise _differs(written, f"write {float(written):f}".rstrip("0").rstrip("."))
        return float(written)
    if _SPECIAL.fullmatch(written):
        return float(written.lower().replace(".", ""))
    if _OLD_UNDERSCORE.fullmatch(written):
        raise _differs(written, f"write {written.replace('_', '')}")
    if written in ("=", "<<") or any(old.fullmatch(written) for old in (_OLD_BINARY, _OLD_SEXAGESIMAL, _OLD_DATE)):
        raise _differs(written, "")
    return written


def _differs(written: str, remedy: str) -> Unusable:
    hint = f'{remedy}, or "{written}" for the text' if remedy else f'write "{written}" for the text'
    return Unusable("LB106", f"{written} means one thing in YAML 1.1 and another in YAML 1.2", hint)
