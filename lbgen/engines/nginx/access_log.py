"""The access log: its format in nginx.conf, and the translation of a line to lbgen's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lbgen.engines.metrics_spec import L4_MARK
from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.nginx.definitions import Section
from lbgen.engines.nginx.names import inline, inline_upstream, reference
from lbgen.engines.nginx.statements import NONE, Entry, Line, LogFormat
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import Contributor, HeaderLines, HttpBlock, HttpRoute, HttpServer, L4Server, Lines
from lbgen.engines.text import Atom, Literal
from lbgen.json_types import AccessRecord
from lbgen.plan.model import Forward, Listener, Mode, Plan, Protocol

FILE = "access.log"
_ROUTE, POOL = "logged_route", "logged_pool"
_NAME = "[a-z0-9._-]+"
_SET, _LOGGED = Atom("set"), reference(_ROUTE)
_CLIENT_CLOSED = 499  # nginx's status for a request that the client abandoned
_UNANSWERED = (0, len(b"HTTP/1.1 100 Continue\r\n\r\n"))  # bytes of such a request; an endpoint's own 499 has a body
_ADDRESS = re.compile(r"[^ ,]+:[0-9]+")
_SECONDS = re.compile(r"[0-9]+(?:[.][0-9]+)?")
# The keys of the format in http.j2.
_FIELDS = frozenset(
    "time listener route pool addresses method host path status duration upstream bytes request_id".split()  # noqa: SIM905
)


def log_format(listener: Listener, headers: HeaderLines, pool: Atom) -> LogFormat:
    """One JSON object per line; nginx escapes the values. `headers` are those that endpoints get, of which the log has
    the request ID; `pool` is a variable."""
    request_id = next((value.parts[0] for value in headers["x-request-id"]), NONE)
    assert isinstance(request_id, Atom)  # noqa: S101  # forwarded_headers.standard_headers
    return LogFormat(Atom(listener.field), Atom.of(_NAME, listener.name), request_id, pool)


def has_own_text(plan: Plan) -> bool:
    """Whether text of the topology may hold locations and redirects of its own."""
    return any(place in ("http", "server") for place, _ in plan.options("nginx").verbatim)


def log_directives(listener: Listener) -> Lines:
    """The log of a listener."""
    files = ((FILE, listener.access_log), (METRICS_LOG, listener.metrics))
    for file in (file for file, is_written in files if is_written):
        yield directive("access_log", file, f"json-{listener.name}", "buffer=64k", "flush=1s")


def shared_log(plan: Plan) -> tuple[Line, ...]:
    """The log in the http block: that of the only L7 listener, otherwise each server block has its own."""
    l7 = [x for x in plan.listeners if x.mode is Mode.L7]
    return tuple(log_directives(l7[0])) if len(l7) == 1 else ()


def _server(at: HttpServer) -> Lines:
    return () if shared_log(at.on.plan) else log_directives(at.listener)


def _location(at: HttpRoute) -> Lines:
    if at.listener.logs:
        name, pools = at.route.name, at.on.logged_pools
        if isinstance(at.route.action, Forward):
            pools[name] = text(inline_upstream(at.on.upstreams[name]))
        yield Line(_SET, (_LOGGED, text(name)))


def _http(on: HttpBlock, lost: bool) -> None:
    """The map from the route of a request to its pool, where nginx has no variable with it."""
    if lost:
        entries = (Entry(Literal(name, "key"), pool) for name, pool in on.logged_pools.items())
        on.definitions.map(Section.LOG, POOL, text(inline(_ROUTE)), *entries)


def _stream(at: L4Server) -> Lines:
    """The log of connections, and the one that the agent counts."""
    listener = at.listener
    traffic = {"received": "$bytes_received", "sent": "$bytes_sent"}
    pool, endpoint, seconds = at.upstream.text, "$upstream_addr", "$session_time"
    if listener.access_log:
        start = {"time": "$msec", "listener": listener.name, "client": "$remote_addr", "pool": pool}
        values = {**start, "endpoint": endpoint, "status": "$status", "duration": seconds, **traffic}
        yield from _l4_file(at, f"json-{listener.name}", FILE, "{", values)
    if listener.metrics and listener.protocol is not Protocol.UDP:
        counted = {"pool": pool, "endpoint": endpoint, "seconds": seconds, **traffic}
        yield from _l4_file(at, f"l4-{listener.name}", METRICS_LOG, f'{L4_MARK}"{listener.name}",', counted)


def _l4_file(at: L4Server, name: str, file: str, start: str, values: Mapping[str, str]) -> Lines:
    """A log whose lines are one JSON object each; of a listener that is alone it stands in the stream block."""
    fields = ",".join(f'"{key}":"{value}"' for key, value in values.items())
    log = directive("access_log", file, name, "buffer=64k", "flush=1s")
    if at.definitions.first("log_format", name):
        form = directive("log_format", name, "escape=json", f"'{start}{fields}}}'")
        at.definitions.add(Section.L4, form, *([log] if at.is_alone else ()))
    if not at.is_alone:
        yield log


def parse_line(line: str) -> AccessRecord | None:
    """The line in lbgen's schema; None when it is not of the access log."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        return None
    addresses = _ADDRESS.findall(fields["addresses"])
    status, length = int(fields["status"]), int(fields["bytes"])
    return {
        "time": _time(float(fields["time"])),
        "listener": fields["listener"],
        "route": fields["route"].partition(":")[0],  # the suffix is the number of a target
        "pool": fields["pool"].partition("~")[0],  # the suffix names an endpoint
        "endpoint": addresses[-1] if addresses else "",
        "method": fields["method"],
        "host": fields["host"],
        "path": fields["path"].partition("?")[0],  # of an empty query
        "status": 0 if status == _CLIENT_CLOSED and length in _UNANSWERED else status,
        "duration_ms": _milliseconds(fields["duration"]),
        "upstream_ms": _milliseconds(fields["upstream"]) if addresses else None,
        "tries": len(addresses),
        "bytes": length,
        "request_id": fields["request_id"],
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _milliseconds(times: Any) -> float:  # noqa: ANN401  # JSON data
    """The sum of the seconds that nginx lists, one value per try."""
    return round(sum(float(each) for each in _SECONDS.findall(times)) * 1000)


ACCESS_LOG = Contributor(http=_http, server=_server, location=_location)
L4_LOG = Contributor(stream=_stream)
