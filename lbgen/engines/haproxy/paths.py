"""Validation of paths: the regex of those that a listener refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from lbgen.plan.policy import Paths

_NO_PATH = r"\\"
STRICT = (
    rf"{_NO_PATH}|//|/\.\.?(?:/|$)|%(?:(?![0-9A-Fa-f]{{2}})|"
    r"(?i:[01][0-9A-F]|2[DEF]|3[0-9]|4[1-9A-F]|5[0-9ACF]|6[1-9A-F]|7[0-9AEF]))"
)
# What no normal form has, and what only Lua can make normal.
BROKEN = rf"{_NO_PATH}|%(?:(?![0-9A-Fa-f]{{2}})|(?i:[01][0-9A-F]|2F|5C|7F))"
_UNRESERVED = "2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]"


def refused_regex(paths: Paths) -> str:
    """A regex that finds what must not be in a path, its escapes (RFC 3986) included."""
    if paths.mode is PathsMode.VERBATIM:
        return rf"{_NO_PATH}|%(?:(?![0-9A-Fa-f]{{2}})|00)"
    if not (paths.empty_segments or paths.encoded_slash or paths.encoded_unreserved):
        return STRICT
    slash = "(?:/|%2[Ff])" if paths.encoded_slash else "/"
    dot = r"(?:\.|%2[Ee])" if paths.encoded_unreserved else r"\."
    dots = f"{slash}{dot}{{1,2}}(?:{slash}|$)"
    escapes = ["[01][0-9A-F]", "5C", "7F"]
    escapes += [] if paths.encoded_slash else ["2F"]
    escapes += [] if paths.encoded_unreserved else [_UNRESERVED]
    parts = [] if paths.empty_segments else ["//"]
    return "|".join([_NO_PATH, *parts, dots, f"%(?:(?![0-9A-Fa-f]{{2}})|(?i:{'|'.join(escapes)}))"])
