"""Lines that HAProxy writes for requests -> records of lbgen's own schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# What the log-format of templates/haproxy/haproxy.cfg.j2 writes; values of requests went through its `json` converter.
MARK = "lbgen_begun"
_NOBODY = "<NOSRV>"
# HAProxy counts what it holds of an answer: a start line (structure, version, status), the end of the head, and for
# each header its name and value. `heads` is the same as text, with four more bytes for each header and two at the end.
_START_LINE = 20 + len("HTTP/1.1") + 3


def record(line: str) -> Mapping[str, object] | None:
    """One request, or None for any other line."""
    if MARK not in line:
        return None
    try:
        said = json.loads(line[line.index("{") :])
    except ValueError:
        return None
    if not isinstance(said, dict) or MARK not in said:
        return None
    said = {name: "" if value == "-" else value for name, value in said.items()}  # what was never set
    asked = said["server"] != _NOBODY
    begun = int(said[MARK]) if said[MARK].isdigit() else int(said["accepted"] + said["ms"].zfill(3))
    status = max(int(said["status"]), 0)
    if said["end"].startswith("CH"):  # the client went before there was an answer
        status = 0
    spent = int(said["took"])
    before = sum(max(int(said[wait]), 0) for wait in ("read", "waited"))
    return {
        "time": datetime.fromtimestamp(begun / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "listener": said["listener"],
        "route": said["route"].partition("/")[0],
        "pool": said["pool"],
        "endpoint": said["endpoint"] if asked else "",
        "method": said["method"],
        "host": said["host"],
        "path": said["path"],
        "status": status,
        "duration_ms": spent,
        "upstream_ms": max(spent - before, 0) if asked else None,
        "tries": int(said["retries"].lstrip("+")) + 1 if asked else 0,
        "bytes": _body(said, status),
        "request_id": said["id"],
    }


def _body(said: dict[str, Any], status: int) -> int:
    """Bytes of the body: the length that the answer declares when it went out whole, else what HAProxy counted."""
    if said["method"] == "HEAD" or status in (0, 204, 304):
        return 0
    whole = said["end"].startswith("--")
    if whole and said["length"].isdigit():
        return int(said["length"])
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else ""
    lines = int(said["lines"] or 0)  # HAProxy's own answers have a length, so they do not come here
    head = _START_LINE + len(phrase) + int(said["heads"] or 0) - 4 * lines - 2 + 1
    end_of_chunks = 0 if said["length"].isdigit() else 1
    counted = max(int(said["sent"]) - head - end_of_chunks, 0)
    return min(counted, int(said["length"])) if said["length"].isdigit() else counted
