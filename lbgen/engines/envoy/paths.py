"""Path safety: Envoy's own normalisation, and a filter that refuses what is malformed or ambiguous after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.forwarded_headers import FRAMING
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import extension
from lbgen.plan.policy import Paths, PathsMode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener

REFUSED = "malformed"  # the filter, and its policy, which Envoy names in the access log
_ANYBODY: list[Data] = [{"any": True}]
_HEX = "[0-9A-Fa-f]"
_BROKEN = f"{_HEX}?|[^0-9A-Fa-f].*|{_HEX}[^0-9A-Fa-f].*"
_HOST = r"(?:[\w.~!$&()*+;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"


def build_path_fields(paths: Paths) -> dict[str, Data]:
    """The fields of a connection manager by which rules and endpoints see one canonical path. A broken escape beside
    one that is resolved becomes an escaped percent sign."""
    if paths.mode is PathsMode.VERBATIM:
        return {"normalize_path": False}
    slashes = "KEEP_UNCHANGED" if paths.encoded_slash else "REJECT_REQUEST"
    return {
        "normalize_path": True,
        **({} if paths.empty_segments else {"merge_slashes": True}),
        "path_with_escaped_slashes_action": slashes,
    }


def build_refusal_filter(listener: Listener, *, hides_method: bool) -> dict[str, Data]:
    """The filter that refuses what no endpoint may get; Envoy itself refuses CONNECT. `hides_method`: a handshake to an
    endpoint of HTTP/2 loses its method."""
    paths = listener.paths
    refused = [_BROKEN, "00.*"] if paths.mode is PathsMode.VERBATIM else [_BROKEN, "[01].*", "7[Ff].*"]
    if paths.encoded_slash:
        refused.append("5[Cc].*")
    escapes = f".*%(?:{'|'.join(refused)})"
    if paths.encoded_slash and paths.mode is not PathsMode.VERBATIM:
        escapes += "|(?i).*(?:/|%2f)[.][.]?(?:/.*|%2f.*)?"  # dots beside an escaped slash
    if paths.mode is not PathsMode.VERBATIM and not paths.empty_segments:
        escapes += "|//"  # which merge_slashes leaves where it is all of the path
    found: list[Data] = [
        {"url_path": {"path": regex(escapes)}},
        _header(":method", string_match={"exact": "TRACE", "ignore_case": True}),
        _header(":authority", string_match=regex(_HOST), invert_match=True),
        _header(FRAMING, string_match={"exact": "HTTP/1.0"}),
    ]
    if hides_method:
        handshake: list[Data] = [
            _header("upgrade", present_match=True),
            _header(":method", string_match={"exact": "GET"}, invert_match=True),
        ]
        found.append({"and_rules": {"rules": handshake}})
    return _deny(REFUSED, {REFUSED: {"permissions": found, "principals": _ANYBODY}})


def _header(name: str, **match: Data) -> dict[str, Data]:
    return {"header": {"name": name, **match}}


def _deny(name: str, policies: dict[str, Data]) -> dict[str, Data]:
    return extension(name, "filters.http.rbac.v3.RBAC", {"rules": {"action": "DENY", "policies": policies}})


def build_size_filters(listener: Listener) -> list[dict[str, Data]]:
    """The filter that refuses longer targets than the listener allows, if it has a limit."""
    if listener.limits.target is None:
        return []
    policy: Data = {
        "permissions": [{"any": True}],
        "principals": _ANYBODY,
        "condition": _longer(listener.limits.target),
    }
    return [_deny("target-size", {"too-long": policy})]


def _longer(limit: int) -> dict[str, Data]:
    """The CEL expression `size(request.path) > limit`."""
    path: Data = {"select_expr": {"operand": {"ident_expr": {"name": "request"}}, "field": "path"}}
    size: Data = {"call_expr": {"function": "size", "args": [path]}}
    return {"call_expr": {"function": "_>_", "args": [size, {"const_expr": {"int64_value": limit}}]}}
