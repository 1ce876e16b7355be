"""Validation of paths: the regex of those that a listener refuses."""

from __future__ import annotations

from lbgen.engines.haproxy import view
from lbgen.engines.haproxy.statements import acl, deny, statement
from lbgen.engines.text import Literal
from lbgen.plan.policy import Paths, PathsMode

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


def path_rules(paths: Paths) -> view.Paths:
    """What the listener refuses at once, and how it makes the others normal or sees to `..` above the root."""
    refused = Literal(refused_regex(paths))
    if paths.mode is PathsMode.NORMALIZE:
        has_any = acl(r"path -m reg '//|/\.|%'")
        normalize = statement("http-request set-path %[path,lua.normal_path]", when=[has_any])
        return view.Paths(Literal(BROKEN), (normalize, deny(400, [acl("path -m reg", refused)])))
    if paths.mode is PathsMode.VERBATIM:
        has_dots = acl(r"path -m reg '(?:/|%2[Ff])(?:\.|%2[Ee]){2}(?:/|%2[Ff]|$)'")
        return view.Paths(refused, (deny(400, [has_dots, acl("path,lua.above_root -m bool")]),))
    return view.Paths(refused, ())
