"""Path safety: Envoy's own normalisation, and a filter that refuses what is malformed or ambiguous after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, refused
from lbgen.engines.document import Commented
from lbgen.engines.envoy.forwarded_headers import FRAMING
from lbgen.engines.envoy.matching import regex
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.view import Contributor, HttpListener
from lbgen.plan.model import Listener, Plan, PoolProtocol
from lbgen.plan.policy import Paths, PathsMode

if TYPE_CHECKING:
    from lbgen.engines.document import Data

REFUSED = "malformed"  # the filter, and its policy, which Envoy names in the access log
_ONE_SPELLING = "Rules and endpoints see one spelling of a path."
_WHY = (
    "Refuses broken escapes and control characters, which normalize_path leaves, TRACE, two Host lines,\n"
    "which Envoy joins, and chunks of HTTP/1.0."
)
_HEX = "[0-9A-Fa-f]"
_BROKEN = f"{_HEX}?|[^0-9A-Fa-f].*|{_HEX}[^0-9A-Fa-f].*"
_HOST = r"(?:[\w.~!$&()*+;=%-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?"


def build_path_fields(paths: Paths) -> dict[str, Data]:
    """The fields of a connection manager by which rules and endpoints see one canonical path. A broken escape beside
    one that is resolved becomes an escaped percent sign."""
    if paths.mode is PathsMode.VERBATIM:
        return {"normalize_path": Commented(_ONE_SPELLING, False)}
    slashes = "KEEP_UNCHANGED" if paths.encoded_slash else "REJECT_REQUEST"
    return {
        "normalize_path": Commented(_ONE_SPELLING, True),
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
    policies: Data = {REFUSED: {"permissions": found, "principals": [{"any": True}]}}
    return extension(REFUSED, "filters.http.rbac.v3.RBAC", {"rules": {"action": "DENY", "policies": policies}})


def _header(name: str, **match: Data) -> dict[str, Data]:
    return {"header": {"name": name, **match}}


def _manager(on: HttpListener) -> dict[str, Data]:
    pools = (pool for route in on.routes for pool in on.clusters.target_pools(route))
    refusal = build_refusal_filter(on.listener, hides_method=any(x.protocol is not PoolProtocol.HTTP1 for x in pools))
    return {**build_path_fields(on.listener.paths), "http_filters": [Commented(_WHY, refusal)]}


def _objections(plan: Plan, _: str) -> Iterator[Objection]:
    for listener in plan.listeners:
        if listener.paths.encoded_unreserved:
            note = "Envoy decodes escapes of unreserved characters before routing; `paths: verbatim` keeps them"
            yield Objection(refused(note), f"{listener.field}.paths", "paths.allow")


PATHS = Contributor(manager=_manager, objections=_objections)
