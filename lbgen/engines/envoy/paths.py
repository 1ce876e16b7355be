"""Path safety: Envoy's own normalisation, and a filter that refuses what is malformed or ambiguous after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import extension
from lbgen.plan.policy import Paths, PathsMode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener

REFUSED = "refused: "  # how names of routes begin that no topology has
_HEX = "[0-9A-Fa-f]"
_BROKEN = f"{_HEX}?|[^0-9A-Fa-f].*|{_HEX}[^0-9A-Fa-f].*"
_OPTIONS = r"(?i)(?:[ \t,]|close|keep-alive|upgrade|te|trailers?|http2-settings|proxy-connection)*"


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


def build_refusals(listener: Listener, *, hides_method: bool) -> list[Tagged]:
    """The first routes of each host: what no endpoint may get. Envoy itself refuses CONNECT, and drops Connection, and
    what it names, of other requests than handshakes. `hides_method`: a handshake to an endpoint of HTTP/2 loses its
    method."""
    paths = listener.paths
    refused = [_BROKEN, "00.*"] if paths.mode is PathsMode.VERBATIM else [_BROKEN, "[01].*", "7[Ff].*"]
    if paths.encoded_slash:
        refused.append("5[Cc].*")
    escapes = f".*%(?:{'|'.join(refused)})"
    if paths.encoded_slash and paths.mode is not PathsMode.VERBATIM:
        escapes += "|(?i).*(?:/|%2f)[.][.]?(?:/.*|%2f.*)?"  # dots beside an escaped slash
    upgrade: Data = {"name": "upgrade", "present_match": True}
    trace: Data = {"name": ":method", "string_match": {"exact": "TRACE"}}
    post: Data = {"name": ":method", "string_match": {"exact": "GET"}, "invert_match": True}
    named: Data = {"name": "connection", "string_match": regex(_OPTIONS), "invert_match": True}
    found: list[tuple[str, dict[str, Data], int]] = [
        ("escape", {**regex(escapes)}, 400),
        ("trace", {"prefix": "/", "headers": [trace]}, 405),
        ("connection", {"prefix": "/", "headers": [upgrade, named]}, 400),
    ]
    if hides_method:
        found.append(("upgrade", {"prefix": "/", "headers": [upgrade, post]}, 400))
    return [
        Tagged(listener.field, {"name": f"{REFUSED}{name}", "match": match, "direct_response": {"status": status}})
        for name, match, status in found
    ]


def build_size_filters(listener: Listener) -> list[dict[str, Data]]:
    """The filter that refuses longer targets than the listener allows, if it has a limit."""
    if listener.limits.target is None:
        return []
    policy: Data = {
        "permissions": [{"any": True}],
        "principals": [{"any": True}],
        "condition": _longer(listener.limits.target),
    }
    rules: dict[str, Data] = {"rules": {"action": "DENY", "policies": {"too-long": policy}}}
    return [extension("target-size", "filters.http.rbac.v3.RBAC", rules)]


def _longer(limit: int) -> dict[str, Data]:
    """The CEL expression `size(request.path) > limit`."""
    path: Data = {"select_expr": {"operand": {"ident_expr": {"name": "request"}}, "field": "path"}}
    size: Data = {"call_expr": {"function": "size", "args": [path]}}
    return {"call_expr": {"function": "_>_", "args": [size, {"const_expr": {"int64_value": limit}}]}}
