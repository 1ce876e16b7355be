"""The access log: reads HAProxy's lines into records of lbgen's schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Keys and values of the log-format in templates/haproxy/haproxy.cfg.j2, which passes values of requests through `json`.
_MARK = "lbgen_begun"
_NO_SERVER = "<NOSRV>"
# HAProxy counts a response as it stores it: a start line (structure, version, status), the end of the head, and for
# each header its name and value. `heads` is the head as text, with four more bytes per header and two at the end.
_START_LINE = 20 + len("HTTP/1.1") + 3


def record(line: str) -> Mapping[str, object] | None:
    """The record of a request; None for any other line."""
    if _MARK not in line:
        return None
    try:
        entry = json.loads(line[line.index("{") :])
    except ValueError:
        return None
    if not isinstance(entry, dict) or _MARK not in entry:
        return None
    entry = {name: "" if value == "-" else value for name, value in entry.items()}  # a variable that was never set
    has_server = entry["server"] != _NO_SERVER
    start = int(entry[_MARK]) if entry[_MARK].isdigit() else int(entry["accepted"] + entry["ms"].zfill(3))
    status = max(int(entry["status"]), 0)
    if entry["end"].startswith("CH"):  # the client left before a response
        status = 0
    total = int(entry["took"])
    waited = sum(max(int(entry[wait]), 0) for wait in ("read", "waited"))
    return {
        "time": datetime.fromtimestamp(start / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "listener": entry["listener"],
        "route": entry["route"].partition("/")[0],
        "pool": entry["pool"],
        "endpoint": entry["endpoint"] if has_server else "",
        "method": entry["method"],
        "host": entry["host"],
        "path": entry["path"],
        "status": status,
        "duration_ms": total,
        "upstream_ms": max(total - waited, 0) if has_server else None,
        "tries": int(entry["retries"].lstrip("+")) + 1 if has_server else 0,
        "bytes": _body(entry, status),
        "request_id": entry["id"],
    }


def _body(entry: dict[str, Any], status: int) -> int:
    """Bytes of the body: Content-Length when the response was sent completely, else the count of HAProxy."""
    if entry["method"] == "HEAD" or status in (0, 204, 304):
        return 0
    whole = entry["end"].startswith("--")
    if whole and entry["length"].isdigit():
        return int(entry["length"])
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    lines = int(entry["lines"] or 0)  # HAProxy's own responses have a length, so they return above
    head = _START_LINE + len(phrase) + int(entry["heads"] or 0) - 4 * lines - 2 + 1
    end_of_chunks = 0 if entry["length"].isdigit() else 1
    counted = max(int(entry["sent"]) - head - end_of_chunks, 0)
    return min(counted, int(entry["length"])) if entry["length"].isdigit() else counted
