"""Validation of paths: the regex of those that a listener refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.plan.policy import PathsMode

if TYPE_CHECKING:
    from lbgen.plan.policy import Paths

STRICT = (
    r"//|/\.\.?(?:/|$)|[#\\]|%(?:(?![0-9A-Fa-f]{2})|"
    r"(?i:[01][0-9A-F]|2[DEF]|3[0-9]|4[1-9A-F]|5[0-9ACF]|6[1-9A-F]|7[0-9AEF]))"
)
# A target that every mode accepts as it is: no segment is empty or begins with a dot, and the path has no escape but
# those of a blank and of bytes beyond ASCII. Possessive, as HAProxy may have a regex library without a compiler.
_CHARS = r"A-Za-z0-9_~!$&()*+,;=:@\x27"
_ESCAPE = "%(?:20|[89A-Fa-f][0-9A-Fa-f])"
PLAIN = rf"^(?=/)(?:/(?:[{_CHARS}-]|{_ESCAPE})(?:[{_CHARS}.-]++|{_ESCAPE})*+)*+/?+(?:\?[][{_CHARS}./?%-]*+)?+$"
_UNRESERVED = "2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]"


def refused_regex(paths: Paths) -> str:
    """A regex that finds what must not be in a path, its escapes (RFC 3986) included."""
    if paths.mode is PathsMode.VERBATIM:
        return "%(?:(?![0-9A-Fa-f]{2})|00)"
    if not (paths.empty_segments or paths.encoded_slash or paths.encoded_unreserved):
        return STRICT
    slash = "(?:/|%2[Ff])" if paths.encoded_slash else "/"
    dot = r"(?:\.|%2[Ee])" if paths.encoded_unreserved else r"\."
    dots = f"{slash}{dot}{{1,2}}(?:{slash}|$)"
    escapes = ["[01][0-9A-F]", "5C", "7F"]
    escapes += [] if paths.encoded_slash else ["2F"]
    escapes += [] if paths.encoded_unreserved else [_UNRESERVED]
    parts = [] if paths.empty_segments else ["//"]
    return "|".join([*parts, dots, f"%(?:(?![0-9A-Fa-f]{{2}})|(?i:{'|'.join(escapes)}))"])
