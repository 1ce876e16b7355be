"""The access log: its format in nginx.conf, and the translation of a line to lbgen's schema."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lbgen.engines.nginx.names import inline, reference
from lbgen.engines.nginx.strings import EMPTY, directive, text
from lbgen.engines.text import Atom, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lbgen.engines.nginx.view import Line, Text
    from lbgen.plan.model import Listener, Route

FILE = "access.log"
ROUTE, POOL = "logged_route", "logged_pool"
_CLIENT_CLOSED = 499  # nginx's status for a request that the client abandoned
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


def format_name(listener: Listener) -> str:
    """The name of a listener's log format."""
    return f"json-{listener.name}"


def log_format(listener: Listener, request_id: Text) -> Line:
    """One JSON object per line; nginx escapes the values."""
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
    return directive("log_format", format_name(listener), "escape=json", text(*parts), origin=Atom(listener.field))


def server_directives(listener: Listener) -> Iterator[Line]:
    """The log of a listener, with empty variables for requests that match no route."""
    if listener.access_log:
        yield directive("access_log", FILE, format_name(listener), "buffer=32k", "flush=1s")
        yield _set(ROUTE, EMPTY)
        yield _set(POOL, EMPTY)


def route_directives(listener: Listener, route: Route, pool: Text) -> tuple[Line, ...]:
    """The variables of the log in a location of the route."""
    if not listener.access_log:
        return ()
    return (_set(ROUTE, text(route.name)), _set(POOL, pool))


def _set(variable: str, value: Text) -> Line:
    return directive("set", reference(variable), value if value.parts else Literal("", "word"))


def parse_line(line: str) -> Mapping[str, object] | None:
    """The line in lbgen's schema; None when it is not of the access log."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.keys() != _FIELDS.keys():
        return None
    addresses = _ADDRESS.findall(fields["addresses"])
    status = int(fields["status"])
    return {
        "time": _time(float(fields["time"])),
        "listener": fields["listener"],
        "route": fields["route"].partition(":")[0],  # the suffix is the number of a target
        "pool": fields["pool"].partition("~")[0],  # the suffix names an endpoint
        "endpoint": addresses[-1] if addresses else "",
        "method": fields["method"],
        "host": fields["host"],
        "path": fields["path"],
        "status": 0 if status == _CLIENT_CLOSED else status,
        "duration_ms": _milliseconds(fields["duration"]),
        "upstream_ms": _milliseconds(fields["upstream"]) if addresses else None,
        "tries": len(addresses),
        "bytes": int(fields["bytes"]),
        "request_id": fields["request_id"],
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(times: Any) -> float:  # noqa: ANN401  # JSON data
    """The sum of the seconds that nginx lists, one value per try."""
    return round(sum(float(each) for each in _SECONDS.findall(times)) * 1000)
