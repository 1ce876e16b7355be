"""The contract's strict request lines -> one RBAC filter that refuses all others before a route is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.values import regex

if TYPE_CHECKING:
    from lbgen.engines.document import Data

# RBAC names the policy that refused in the response code details; statuses.py makes 405 and 400 of them. Policies are
# tried in the order of their names.
NOT_SERVED = "a-method-not-served"
MALFORMED = "b-malformed"

METHOD = "[A-Z][A-Z_-]*"
HOST = r"[A-Za-z0-9._:\[\]-]+"
# Escapes of `/`, `\`, controls and unreserved characters are refused.
_ESCAPE = "%(?:2[0-9A-Ca-c]|3[A-Fa-f]|40|5[BDEbde]|60|7[B-Db-d]|[89A-Fa-f][0-9A-Fa-f])"
_PLAIN = r"[A-Za-z0-9_~:\[\]@!$&'()*+,;=-]"
_NOT_DOT = f"(?:{_PLAIN}|{_ESCAPE})"
_ANY = f"(?:{_PLAIN}|\\.|{_ESCAPE})"
# RE2 cannot look ahead: a segment is anything but `.` and `..` by the place of its first other character.
_SEGMENT = rf"(?:{_NOT_DOT}|\.{_NOT_DOT}|\.\.{_ANY}){_ANY}*"
_QUERY = r"(?:\?[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]*)?"
TARGET = f"/(?:{_SEGMENT}/)*(?:{_SEGMENT})?{_QUERY}"


def strict_filter() -> dict[str, Data]:
    """An HTTP filter that answers 403, which statuses.py turns into 400 or 405."""
    return {
        "name": "strict",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": {
                "action": "DENY",
                "policies": {
                    NOT_SERVED: _policy(_header(":method", "TRACE|CONNECT")),
                    MALFORMED: _policy(
                        {"not_rule": _header(":method", METHOD)},
                        {"not_rule": _header(":authority", HOST)},
                        {"not_rule": _header(":path", TARGET)},
                    ),
                },
            },
        },
    }


def _policy(*permissions: dict[str, Data]) -> dict[str, Data]:
    return {"permissions": list(permissions), "principals": [{"any": True}]}


def _header(name: str, pattern: str) -> dict[str, Data]:
    return {"header": {"name": name, "string_match": regex(pattern)}}
