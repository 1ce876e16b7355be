"""Errors of single values, which pydantic carries to their place."""

from __future__ import annotations

from pydantic_core import PydanticCustomError


def invalid(code: str, message: str, hint: str = "", *, key: str = "") -> PydanticCustomError:
    """An error of that diagnostic code; raise it in a validator. `key` moves it to that key of the mapping."""
    context = {"message": message, "hint": hint, "key": key}
    return PydanticCustomError(code, "{message}", context)


def wrong_type(wanted: str, value: object, hint: str = "") -> PydanticCustomError:
    """LB105: `value` is there where `wanted` (such as `text`) is needed."""
    return invalid("LB105", f"{kind_of(value)} where {wanted} is expected", hint or _as_text(wanted, value))


def require_text(wanted: str, value: object) -> str:
    """`value` when it is text, else LB105."""
    if isinstance(value, str):
        return value
    raise wrong_type(wanted, value)


def kind_of(value: object) -> str:
    """What `value` is, in a user's words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the text "{shorten(value)}"'
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, dict) else "no value"


def shorten(value: str, limit: int = 60) -> str:
    """`value` fit for one line of a message: control characters escaped, the middle of a long text left out."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in value)
    return shown if len(shown) <= limit else f"{shown[: limit - 15]}...{shown[-12:]}"


def _as_text(wanted: str, value: object) -> str:
    if "text" in wanted and isinstance(value, bool | int | float):
        return f'write "{str(value).lower()}"'
    return ""
