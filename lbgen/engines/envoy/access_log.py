"""The access log: Envoy's JSON format, and the conversion of its lines to lbgen's schema.

Where an endpoint never answered, its time is counted from the first byte sent to it; if that is missing too, it is the
whole time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from lbgen.engines.document import Commented
from lbgen.engines.envoy.paths import REFUSED
from lbgen.engines.envoy.protobuf import extension
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute, pool_name
from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.metrics_spec import l4_format
from lbgen.json_types import AccessRecord
from lbgen.plan.model import Forward, Listener, Route

if TYPE_CHECKING:
    from lbgen.engines.document import Data

FILE = "access.log"
_SNAPSHOT = "original"  # filter state: the request's host and path before a route rewrites them
# What Envoy answers to a gRPC client has status 200 and one of these; by gRPC's own table of HTTP statuses.
_GRPC_STATUSES = {4: 504, 7: 403, 8: 429, 12: 404, 13: 400, 14: 503, 16: 401}
_OF_ENDPOINT = "via_upstream"
_AS_THEY_ARE = {"host": "%REQ(:AUTHORITY)%", "path": "%PATH(NQ:PATH)%"}


def _manager(on: HttpListener) -> dict[str, Data]:
    """The log, and the filter that saves what routes rewrite of a request: `host`, `path` or both."""
    if not on.listener.logs:
        return {}
    rewritten = sorted({what for route in on.routes for what in _list_rewrites(route)})
    logs = _build_logs(on.listener, rewritten)
    found: dict[str, Data] = {"access_log": Commented("`lbgen logs` reads these fields.", logs)} if logs else {}
    if rewritten:
        config: dict[str, Data] = {"on_request_headers": [_save(what) for what in rewritten]}
        snapshot = extension("original-request", "filters.http.set_filter_state.v3.Config", config)
        found["http_filters"] = [Commented("Saves for the access log what routes rewrite.", snapshot)]
    return found


def _list_rewrites(route: Route) -> Iterator[str]:
    rewrite = route.action.rewrite if isinstance(route.action, Forward) else None
    if rewrite is not None and rewrite.host is not None:
        yield "host"
    if rewrite is not None and (rewrite.path is not None or rewrite.prefix is not None):
        yield "path"


def _route(at: HttpRoute) -> dict[str, Data]:
    return {"name": at.route.name} if at.on.listener.logs else {}


def _save(what: str) -> dict[str, Data]:
    return {
        "object_key": f"{_SNAPSHOT}.{what}",
        "factory_key": "envoy.string",
        "format_string": {"text_format_source": {"inline_string": _AS_THEY_ARE[what]}},
    }


def _build_logs(listener: Listener, rewritten: Iterable[str]) -> list[dict[str, Data]]:
    """Writes one JSON line per request; `parse_record` converts what Envoy names differently. What is
    `rewritten` comes from the filter that saved it."""
    shown = _AS_THEY_ARE | {what: f"%FILTER_STATE({_SNAPSHOT}.{what}:PLAIN)%" for what in rewritten}
    files = (("file", FILE, listener.access_log), ("metrics", METRICS_LOG, listener.metrics))
    fields: Data = {
        "time": "%START_TIME%",
        "listener": listener.name,
        "route": "%ROUTE_NAME%",
        "pool": "%UPSTREAM_CLUSTER_RAW%",
        "endpoint": "%UPSTREAM_HOST%",
        "method": "%REQ(:METHOD)%",
        "host": shown["host"],
        "path": shown["path"],
        "status": "%RESPONSE_CODE%",
        "duration_us": "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
        "upstream_us": "%COMMON_DURATION(US_TX_BEG:US_RX_END:us)%",
        "tried_us": "%COMMON_DURATION(US_TX_BEG:DS_TX_END:us)%",
        "tries": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%",
        "bytes": "%BYTES_SENT%",
        "request_id": "%REQ(X-REQUEST-ID)%",
        "total_ms": "%DURATION%",
        "grpc": "%GRPC_STATUS_NUMBER%",
        "because": "%RESPONSE_CODE_DETAILS%",
    }
    return [_write(name, file, {"json_format": fields}) for name, file, is_written in files if is_written]


def build_l4_logs(listener: Listener) -> list[dict[str, Data]]:
    """Write one line per connection of an L4 listener, for people and for the agent, which counts them."""
    found = []
    if listener.access_log:
        fields: Data = {
            "time": "%START_TIME%",
            "listener": listener.name,
            "client": "%DOWNSTREAM_REMOTE_ADDRESS%",
            **({"sni": "%REQUESTED_SERVER_NAME%"} if listener.tls is not None else {}),
            "pool": "%UPSTREAM_CLUSTER_RAW%",
            "endpoint": "%UPSTREAM_HOST%",
            "duration_ms": "%DURATION%",
            "received": "%BYTES_RECEIVED%",
            "sent": "%BYTES_SENT%",
        }
        found.append(_write("file", FILE, {"json_format": fields}))
    if listener.metrics:
        line = l4_format(
            listener.name,
            pool="%UPSTREAM_CLUSTER_RAW%",
            endpoint="%UPSTREAM_HOST%",
            milliseconds="%DURATION%",
            received="%BYTES_RECEIVED%",
            sent="%BYTES_SENT%",
        )
        found.append(_write("metrics", METRICS_LOG, {"text_format_source": {"inline_string": f"{line}\n"}}))
    return found


def _write(name: str, file: str, line: Data) -> dict[str, Data]:
    return extension(name, "access_loggers.file.v3.FileAccessLog", {"path": file, "log_format": line})


def parse_record(line: str) -> AccessRecord | None:
    """A line of the log in lbgen's schema; None for any other line."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    if not isinstance(found, dict) or "upstream_us" not in found or "total_ms" not in found:
        return None
    endpoint = found["endpoint"] or ""
    duration = _milliseconds(found["duration_us"], found["total_ms"] or 0)
    tried = _milliseconds(found["upstream_us"], _milliseconds(found["tried_us"], duration))
    return {
        "time": found["time"],
        "listener": found["listener"],
        "route": "" if f"policy[{REFUSED}]" in (found.get("because") or "") else found["route"] or "",
        "pool": pool_name(found["pool"] or ""),
        "endpoint": endpoint,
        "method": found["method"] or "",
        "host": found["host"] or "",
        "path": found["path"] or "",
        "status": _status(found),
        "duration_ms": duration,
        "upstream_ms": tried if endpoint else None,
        "tries": int(found["tries"] or 0) if endpoint else 0,
        "bytes": int(found["bytes"] or 0),
        "request_id": found["request_id"] or "",
    }


def _status(found: dict[str, Any]) -> int:
    """The status of an answer; of one that Envoy itself gives to a gRPC client the HTTP status that it stands for."""
    grpc = found.get("grpc")
    if grpc and found.get("because") != _OF_ENDPOINT:
        return _GRPC_STATUSES.get(int(grpc), 500)
    return int(found["status"] or 0)


def _milliseconds(micros: object, otherwise: float) -> float:
    """Microseconds in the log as milliseconds; `otherwise` where the log has no such time."""
    return micros / 1000 if isinstance(micros, int) and micros >= 0 else otherwise


ACCESS_LOG = Contributor(manager=_manager, route=_route)
