"""The access log: what nginx writes for a request, and such a line in lbgen's own schema."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lbgen.engines.nginx.names import inline
from lbgen.engines.nginx.strings import EMPTY, text
from lbgen.engines.nginx.view import Line
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.nginx.view import Text
    from lbgen.plan.model import Listener, Route

FILE = "access.log"
ROUTE, POOL = "logged_route", "logged_pool"
_CLIENT_LEFT = 499  # nginx's own status for a request that was never answered
_ADDRESS = re.compile(r"[^ ,]+:[0-9]+")
_SECONDS = re.compile(r"[0-9]+(?:[.][0-9]+)?")
_FIELDS = {
    "time": "msec",
    "listener": "",
    "route": ROUTE,
    "pool": POOL,
    "addresses": "upstream_addr",
    "method": "logged_method",
    "host": "http_host",
    "path": "logged_path",
    "status": "status",
    "duration": "request_time",
    "upstream": "upstream_response_time",
    "bytes": "body_bytes_sent",
    "request_id": "",
}


def name(listener: Listener) -> str:
    """What the log format of a listener is called."""
    return f"json-{listener.name}"


def log_format(listener: Listener, request_id: Text) -> Line:
    """One JSON object a line; nginx escapes what stands in its strings."""
    parts: list[str | Atom] = []
    for field, variable in _FIELDS.items():
        parts.append(f'{", " if parts else "{"}"{field}": "')
        if field == "listener":
            parts.append(listener.name)
        elif field == "request_id":
            parts += [part if isinstance(part, Atom) else part.text for part in request_id.parts]
        else:
            parts.append(inline(variable))
        parts.append('"')
    parts.append("}")
    start = (Atom(name(listener)), Atom("escape=json"))
    return Line(Atom("log_format"), (*start, text(*parts)), Atom(listener.field))


def server_lines(listener: Listener) -> Iterator[Line]:
    """Where a listener's requests are logged, and what is known of one that no route takes."""
    if listener.access_log:
        yield Line(Atom("access_log"), (Atom(FILE), Atom(name(listener)), Atom("buffer=32k"), Atom("flush=1s")))
        yield _set(ROUTE, EMPTY)
        yield _set(POOL, EMPTY)


def route_lines(listener: Listener, route: Route, pool: Text) -> tuple[Line, ...]:
    """What a location tells the log about its requests."""
    if not listener.access_log:
        return ()
    return (_set(ROUTE, text(route.name)), _set(POOL, pool))


def _set(variable: str, value: Text) -> Line:
    return Line(Atom("set"), (Atom(f"${variable}"), value if value.parts else Literal("", "word")))


def record(line: str) -> Mapping[str, object] | None:
    """The line in lbgen's schema; None when it is none of the access log."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.keys() != _FIELDS.keys():
        return None
    addresses = _ADDRESS.findall(found["addresses"])
    status = int(found["status"])
    return {
        "time": _time(float(found["time"])),
        "listener": found["listener"],
        "route": found["route"].partition(":")[0],  # what follows is one of its targets
        "pool": found["pool"].partition("~")[0],  # what follows is one of its endpoints
        "endpoint": addresses[-1] if addresses else "",
        "method": found["method"],
        "host": found["host"],
        "path": found["path"],
        "status": 0 if status == _CLIENT_LEFT else status,
        "duration_ms": _milliseconds(found["duration"]),
        "upstream_ms": _milliseconds(found["upstream"]) if addresses else None,
        "tries": len(addresses),
        "bytes": int(found["bytes"]),
        "request_id": found["request_id"],
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(times: Any) -> float:  # noqa: ANN401  # JSON data
    """The sum of nginx's seconds, of which a request has one for each try."""
    return round(sum(float(found) for found in _SECONDS.findall(times)) * 1000)
