"""Ambiguous paths, which a first rule answers with 400: other rules could be passed by another spelling of a path."""

from __future__ import annotations

_HEX = "0-9A-Fa-f"
# Escapes of controls, slashes and of what needs no escape.
_NEEDLESS = f"[01][{_HEX}]|2[DEFdef]|3[0-9]|4[1-9A-Fa-f]|5[0-9AaCcFf]|6[1-9A-Fa-f]|7[0-9AaEeFf]"

AMBIGUOUS = (
    r"^.*(//|/[.][.]?(/|$)|[#\\]).*$",  # empty and dot segments, and what is no part of a path
    f"^.*%([^{_HEX}]|[{_HEX}][^{_HEX}]|[{_HEX}]?$).*$",  # broken escapes
    f"^.*%({_NEEDLESS}).*$",
)
"""Patterns for the whole path, as many as a condition holds."""
