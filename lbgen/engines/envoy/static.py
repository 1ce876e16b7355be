"""The part of envoy.yaml that no listener, route or pool decides: the node, runtime keys and the admin interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import comment_on
from lbgen.engines.envoy.forwarded_headers import NO_HEADER, SAVED_PROTO, TRANSFER_CODING
from lbgen.engines.envoy.run import STATS_PATH, STATUS_PATH
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Plan

KEYS = ("admin", "node", "header_prefix", "inline_headers", "layered_runtime")
_FEATURE = "envoy.reloadable_features."
_MOST_HEADERS = 1000  # lines of a head; HAProxy has the same limit
_PAUSE = f"{_FEATURE}http_pause_generic_upgrade_request_body"
NOTES = {
    "header_prefix": "Envoy obeys request headers with this prefix; with the default, x-envoy, it would obey clients.",
    "inline_headers": "Looking up any other header makes Envoy index all headers of a message.",
}


def build_static(plan: Plan, *, node: bool = False) -> dict[str, Data]:
    """These keys of the bootstrap; resources from elsewhere need a `node`."""
    return {
        **_build_admin(plan),
        **({"node": {"id": "lbgen", "cluster": "lbgen"}} if node else {}),
        "header_prefix": "x-lbgen",
        **_build_inline_headers(plan),
        "layered_runtime": {"layers": _build_layers(plan)},
    }


def _build_admin(plan: Plan) -> dict[str, Data]:
    if plan.admin_port is None:
        return {}
    address: Data = {"socket_address": {"address": "127.0.0.1", "port_value": plan.admin_port}}
    if not plan.admin_shared:
        return {"admin": {"address": address}}
    # Others can reach the port: it answers nothing that changes or stops Envoy.
    return {"admin": {"address": address, "allow_paths": [{"exact": each} for each in (STATUS_PATH, STATS_PATH)]}}


def _build_inline_headers(plan: Plan) -> dict[str, Data]:
    """The headers beside Envoy's own inline ones that are looked up in every request or response."""
    kept = [each.guarantees for each in plan.listeners if each.mode is Mode.L7]
    names = ["trailer", SAVED_PROTO] if kept else []
    if any(each.framing or each.paths for each in kept):
        names += [NO_HEADER, TRANSFER_CODING]
    found: list[Data] = [_inline(name, "REQUEST_HEADER") for name in names]
    return {"inline_headers": [*found, _inline("te", "RESPONSE_HEADER")]} if found else {}


def _inline(name: str, kind: str) -> dict[str, Data]:
    return {"inline_header_name": name, "inline_header_type": kind}


def _build_layers(plan: Plan) -> list[Data]:
    """Runtime keys; those that limit the connections of listeners are a layer of their own."""
    l7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    found: dict[str, Data] = {f"{_FEATURE}strict_chunk_parsing": True} if l7 else {}
    if any(listener.guarantees.framing for listener in l7):
        found[_PAUSE] = True
    found |= {
        f"{_FEATURE}match_headers_individually": False,
        f"{_FEATURE}re2_use_latin1_mode": False,
        "re2.max_program_size.error_level": 1_000_000,
        **({f"{_FEATURE}max_{side}_headers_count": _MOST_HEADERS for side in ("request", "response")} if l7 else {}),
    }
    notes = {
        f"{_FEATURE}strict_chunk_parsing": "A chunk must have the length that it declares.",
        _PAUSE: "Bytes that follow a handshake wait for its response.",
        f"{_FEATURE}match_headers_individually": "Lines of a header are matched as one list, by characters, not bytes.",
        "re2.max_program_size.error_level": "The default of 100 is for untrusted patterns; that of targets needs 300."
        + (" Heads may have 1000 lines, not 100." if l7 else ""),
    }
    layers: list[Data] = [{"name": "static", "static_layer": comment_on(found, notes)}]
    limits: dict[str, Data] = {
        f"envoy.resource_limits.listener.{listener.name}.connection_limit": listener.max_connections
        for listener in plan.listeners
        if listener.max_connections is not None
    }
    return [*layers, {"name": "listeners", "static_layer": limits}] if limits else layers
