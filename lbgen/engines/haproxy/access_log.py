"""The access log: reads HAProxy's lines into records of lbgen's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from lbgen.engines.haproxy.buffers import head_kib
from lbgen.engines.haproxy.statements import Section, section, statement
from lbgen.engines.haproxy.view import Contributor
from lbgen.json_types import AccessRecord
from lbgen.plan.model import Mode, Plan

# Keys and values of the log-format in templates/haproxy/haproxy.cfg.j2. Hosts and ids pass through HAProxy's `json`; a
# path has a code such as #22 for a quote, a # and what is not printable US-ASCII, yet a backslash as it came.
_MARK = "lbgen"
_PATH = re.compile(r'(?<="path":")[^"]*')
_CODE = re.compile(rb"#([0-9A-F]{2})")
_NO_SERVER = "<NOSRV>"
_UNREAD = "<BADREQ>"
# Of a body of unknown length HAProxy knows only how many bytes it sent with the head. `timers` are milliseconds of the
# handshake, idle time, reading the head, waiting for a connection, and in total.


def record(line: str) -> AccessRecord | None:
    """The record of a request; None for any other line."""
    if _MARK not in line:
        return None
    try:
        entry = json.loads(_PATH.sub(_decode, line[line.index("{") :], count=1))
    except ValueError:
        return None
    if not isinstance(entry, dict) or _MARK not in entry:
        return None
    entry = {name: "" if value == "-" else value for name, value in entry.items()}  # a variable that was never set
    shake, idle, read, waited, total = map(int, entry["timers"].replace("+", "").split("/"))
    has_server = entry["server"] != _NO_SERVER
    status = max(int(entry["status"]), 0)
    if _has_left(entry):
        status = 0
    # HAProxy counts a connection, or the next request on it, as accepted once the previous request is over.
    seconds, _, milliseconds = entry[_MARK].partition(".")
    start = int(seconds + milliseconds.zfill(3)) + max(shake, 0) + max(idle, 0)
    return {
        "time": datetime.fromtimestamp(start / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "listener": entry["listener"],
        "route": "" if entry["method"] == _UNREAD else entry["route"].partition("/")[0],
        "pool": _pool(entry, status),
        "endpoint": entry["endpoint"] if has_server else "",
        "method": "" if entry["method"] == _UNREAD else entry["method"],
        "host": entry["host"],
        "path": "" if entry["path"] == _UNREAD else entry["path"],
        "status": status,
        "duration_ms": total,
        "upstream_ms": max(total - max(read, 0) - max(waited, 0), 0) if has_server else None,
        "tries": int(entry["retries"].lstrip("+")) + 1 if has_server else 0,
        "bytes": _body(entry, status),
        "request_id": entry["id"] or entry.get("own_id", ""),
    }


def _has_left(entry: dict[str, Any]) -> bool:
    """Whether the client left before a response: HAProxy then logs a status that it did not send."""
    return entry["end"].startswith("C") and (not entry["end"].startswith("CD") or entry["sent"] == "0")


def _decode(path: re.Match[str]) -> str:
    """A path of the log as the inside of a JSON string; like `json`, without bytes that are no UTF-8."""
    raw = _CODE.sub(lambda code: bytes.fromhex(code[1].decode()), path[0].encode())
    return json.dumps(raw.decode(errors="ignore"))[1:-1]


def _pool(entry: dict[str, Any], status: int) -> str:
    """The pool of a backend, which is named like it, with a number where there are several. HAProxy names the frontend
    where a request did not get to a backend; only backends answer 503."""
    name = entry["pool"]
    if name.startswith("route:") and name.count(":") > 1:
        return ""
    if name == entry["listener"] and entry["server"] == _NO_SERVER and status != HTTPStatus.SERVICE_UNAVAILABLE:
        return ""
    return str(name).partition(":")[0]


def _body(entry: dict[str, Any], status: int) -> int:
    """Bytes of the body: Content-Length, or fewer where HAProxy sent fewer."""
    if entry["method"] == "HEAD" or status in (0, 204, 304):
        return 0
    return min(int(entry["sent"]), int(entry["length"] or entry["sent"]))


def _settings(plan: Plan, _: str) -> Iterator[Section]:
    if any(listener.logs for listener in plan.listeners if listener.mode is Mode.L7):
        size = f"tune.http.logurilen {head_kib(plan) * 1024}"
        yield section("", [statement(size, comment="paths are logged whole")])


ACCESS_LOG = Contributor(settings=_settings)
