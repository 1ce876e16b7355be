"""Path validation and normalisation: tests of the request line, filters that refuse what fails them, and Lua filters.

`paths: normalize` adds a first route that matches every target not in normal form. On it a Lua filter rewrites the
target and looks up the route again. Envoy takes the list of filters from the first route, so that one enables all
filters of the listener; the second route configures them.

`paths: verbatim` adds a Lua filter that refuses targets which lead above the root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented
from lbgen.engines.envoy.conditional_filters import ENABLED, skip_where
from lbgen.engines.envoy.forwarded_headers import TRANSFER_CODING
from lbgen.engines.envoy.lua import build_lua_filter, load_lua
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.predicates import any_of, header_equals, header_matches, not_
from lbgen.engines.envoy.protobuf import extension
from lbgen.plan.policy import Paths, PathsMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate
    from lbgen.plan.guarantees import Guarantees

# RBAC writes the name of the policy that refused into the response code details, which local_replies.py maps to 405,
# 400 and 414. Envoy tries policies in the order of their names.
NOT_SERVED = "a-method-not-served"
MALFORMED = "b-malformed"
TOO_LONG = "too-long"

# The language of `lbgen.plan.request.AUTHORITY`. No byte leaves RE2 a choice, so it runs its fastest matcher.
AUTHORITY = (
    r"(?:(?:[A-Za-z0-9_-]\.?)+|\[[0-9A-Fa-f:.]+\])"
    r"(?::(?:[07-9][0-9]{0,3}|[1-5][0-9]{0,4}|6(?:[0-4][0-9]{0,3}|[6-9][0-9]{0,2}"
    r"|5(?:[0-4][0-9]{0,2}|[6-9][0-9]?|5(?:[0-2][0-9]?|[4-9]|3[0-5]?)?)?)?)?)?"
)
ODD_METHOD = r"TRACE|CONNECT||[^A-Z]\C*|\C*[^A-Z_-]\C*"  # all but [A-Z][A-Z_-]*, without those two
_PLAIN = r"[A-Za-z0-9_~:\[\]@!$&'()*+,;=-]"
# Escapes of `/`, `\`, control and unreserved characters are refused.
_ESCAPE = "2[0-9A-Ca-c]|3[A-Fa-f]|40|5[BDEbde]|60|7[B-Db-d]|[89A-Fa-f][0-9A-Fa-f]"
_SLASH = "%2[Ff]"
UNRESERVED = "2[Dd]|3[0-9]|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae]"  # all but the dot
_QUERY = r"(?:\?[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*)?"
_VERBATIM = rf"/(?:[A-Za-z0-9._~:/\[\]@!$&'()*+,;=-]|%(?:0[1-9A-Fa-f]|[1-9A-Fa-f][0-9A-Fa-f]))*{_QUERY}"
# Envoy itself refuses such a request unless it asks for an upgrade.
_NEVER_NOMINATED = r"(?i)(?:\C*,)?[ \t]*(?:(?:host|x-forwarded-(?:for|host|proto))[ \t]*(?:,\C*)?|:\C*)"
NORMALIZE = "normal-form"
_TARGET_NOTES = {
    PathsMode.STRICT: "Path: segments that are neither empty nor dots, with no malformed or ambiguous escape.",
    PathsMode.NORMALIZE: "Path: what is in normal form by now, with no malformed or ambiguous escape.",
    PathsMode.VERBATIM: "Path: characters of a URI, and no malformed escape.",
}
# An empty segment, an escape of an unreserved character, or a segment of one or two dots.
_NOT_NORMAL = rf"\C*(?://\C*|%(?:{UNRESERVED}|2[Ee])\C*|/\.\.?(?:/\C*)?)"
_WITH_DOT_DOT = r"[^?]*(?:/|%2[Ff])(?:\.|%2[Ee])(?:\.|%2[Ee])(?:(?:/|%2[Ff])[^?]*)?(?:\?.*)?"


def build_target_pattern(paths: Paths) -> str:
    """A regex for the targets that are accepted."""
    if paths.mode is PathsMode.VERBATIM:
        return _VERBATIM
    escape = f"{_ESCAPE}|{UNRESERVED}" if paths.encoded_unreserved else _ESCAPE
    dot = r"(?:\.|%2[Ee])" if paths.encoded_unreserved else r"\."
    other = f"(?:{_PLAIN}|%(?:{escape}))"
    either = f"(?:{_PLAIN}|{dot}|%(?:{escape}))"
    # RE2 has no look-ahead: a segment other than `.` and `..` is matched by the place of its first other character.
    segment = rf"(?:{other}|{dot}{other}|{dot}{dot}{either}){either}*"
    if paths.encoded_slash:  # such segments, some of them empty, joined by escaped slashes
        segment = f"(?:{segment}|(?:(?:{segment})?{_SLASH})+(?:{segment})?)"
    inner = f"(?:{segment})?" if paths.empty_segments else segment
    return f"/(?:{inner}/)*(?:{segment})?{_QUERY}"


TARGET = build_target_pattern(Paths())


def build_refusal(paths: Paths, guarantees: Guarantees) -> tuple[Predicate, dict[str, Data]] | None:
    """The test that well-formed requests pass, and the filter that answers all others with 403, which local_replies.py
    maps to 400 or 405; None where nothing is tested."""
    tests: list[tuple[str, Predicate]] = []
    policies: dict[str, Data] = {MALFORMED: _policy({"any": True})}
    if guarantees.framing:
        policies = {NOT_SERVED: _policy(_header(":method", "TRACE|CONNECT")), **policies}
        tests = [
            (
                "Method: capital letters, - and _. Most are GET, which is faster to find.",
                any_of(header_equals(":method", "GET"), not_(header_matches(":method", ODD_METHOD))),
            ),
            ("Host: a name or an address, and a port up to 65535.", header_matches(":authority", AUTHORITY)),
            (
                "Connection: a client that names one of these tries to strip headers that proxies set.",
                not_(header_matches("connection", _NEVER_NOMINATED)),
            ),
            ("HTTP/1.0 has no transfer codings.", not_(header_equals(TRANSFER_CODING, "HTTP/1.0"))),
        ]
    if guarantees.paths:
        tests.append((_TARGET_NOTES[paths.mode], header_matches(":path", build_target_pattern(paths))))
    if not tests:
        return None
    every: list[Data] = [Commented(why, test) for why, test in tests]
    well_formed: Predicate = {"and_matcher": {"predicate": every}} if len(every) > 1 else tests[0][1]
    return well_formed, extension("malformed", "filters.http.rbac.v3.RBAC", _deny(policies))


def build_path_fields() -> dict[str, Data]:
    """The fields of a connection manager by which rules and endpoints see one canonical path. A broken escape beside
    one that is resolved becomes an escaped percent sign."""
    return {
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
    }


def build_path_filter() -> dict[str, Data]:
    """The filter that answers the escapes which are left after that and mean nothing, or a control character, by
    403, which local_replies.py maps to 400."""
    well_formed: Data = {"url_path": {"path": regex(rf"(?:[^%]|%(?:{_ESCAPE}))*")}}
    return extension("paths", "filters.http.rbac.v3.RBAC", _deny({MALFORMED: _policy({"not_rule": well_formed})}))


def build_target_limit_filter(limit: int) -> dict[str, Data]:
    """The filter that answers a longer target with 403, which local_replies.py maps to 414."""
    policy = {**_policy({"any": True}), "condition": _longer(limit)}
    return extension(TOO_LONG, "filters.http.rbac.v3.RBAC", _deny({TOO_LONG: policy}))


def _deny(policies: dict[str, Data]) -> dict[str, Data]:
    return {"rules": {"action": "DENY", "policies": policies}}


def _longer(limit: int) -> dict[str, Data]:
    """The CEL expression `size(request.path) > limit`."""
    path: Data = {"select_expr": {"operand": {"ident_expr": {"name": "request"}}, "field": "path"}}
    size: Data = {"call_expr": {"function": "size", "args": [path]}}
    return {"call_expr": {"function": "_>_", "args": [size, {"const_expr": {"int64_value": limit}}]}}


def _policy(*permissions: dict[str, Data]) -> dict[str, Data]:
    return {"permissions": list(permissions), "principals": [{"any": True}]}


def _header(name: str, pattern: str) -> dict[str, Data]:
    return {"header": {"name": name, "string_match": regex(pattern)}}


def build_normalize_filter() -> dict[str, Data]:
    """The filter that rewrites a target, off until the first route enables it."""
    return build_lua_filter(NORMALIZE, load_lua("normalize"), disabled=True)


def build_above_root_filter() -> dict[str, Data]:
    """The filter for `verbatim`, skipped for targets without a `..` segment."""
    above_root = build_lua_filter("above-root", load_lua("above_root"))
    return skip_where(not_(header_matches(":path", _WITH_DOT_DOT)), above_root)


def build_non_normal_route(filters: Iterable[dict[str, Data]]) -> dict[str, Data]:
    """The route for targets not in normal form; it enables all of `filters` that are off."""
    names = [str(each["name"]) for each in filters if each.get("disabled")]
    return {
        "match": regex(_NOT_NORMAL),
        "direct_response": {"status": 400, "body": {"inline_string": "Bad Request\n"}},
        "typed_per_filter_config": dict.fromkeys(names, ENABLED),
    }
