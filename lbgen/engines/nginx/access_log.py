"""The access log: its format in nginx.conf, and the translation of a line to lbgen's schema."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.nginx.names import inline, inline_upstream, reference
from lbgen.engines.nginx.strings import EMPTY, directive, text
from lbgen.engines.nginx.upstream_protocols import PROXY
from lbgen.engines.nginx.view import NONE, Contributor, Entry, HttpServer, Line, Location, LogFormat, Map, Text
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Listener, Mode, Plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lbgen.json_types import AccessRecord

FILE = "access.log"
ROUTE, POOL = "logged_route", "logged_pool"
_NAME = "[a-z0-9._-]+"
_SET, _ROUTE = Atom("set"), reference(ROUTE)
_CLIENT_CLOSED = 499  # nginx's status for a request that the client abandoned
_UNANSWERED = (0, len(b"HTTP/1.1 100 Continue\r\n\r\n"))  # bytes of such a request; an endpoint's own 499 has a body
_ADDRESS = re.compile(r"[^ ,]+:[0-9]+")
_SECONDS = re.compile(r"[0-9]+(?:[.][0-9]+)?")
# The keys of the format in http.j2.
_FIELDS = frozenset(
    "time listener route pool addresses method host path status duration upstream bytes request_id".split()  # noqa: SIM905
)


def format_name(listener: Listener) -> str:
    """The name of a listener's log format."""
    return f"json-{listener.name}"


def log_format(listener: Listener, request_id: Text, pool: Atom) -> LogFormat:
    """One JSON object per line; nginx escapes the values. `request_id` is a variable or nothing, `pool` a variable."""
    variable = request_id.parts[0] if request_id.parts else NONE
    assert isinstance(variable, Atom)  # noqa: S101  # headers.standard_headers
    return LogFormat(Atom(listener.field), Atom.of(_NAME, listener.name), variable, _ROUTE, pool)


def has_own_text(plan: Plan) -> bool:
    """Whether text of the topology may hold locations and redirects of its own."""
    return any(place in ("http", "server") for place, _ in plan.options("nginx").verbatim)


def log_directives(listener: Listener) -> Iterator[Line]:
    """The log of a listener."""
    files = ((FILE, listener.access_log), (METRICS_LOG, listener.metrics))
    for file in (file for file, is_written in files if is_written):
        yield directive("access_log", file, format_name(listener), "buffer=64k", "flush=1s")


def shared_log(plan: Plan) -> tuple[Line, ...]:
    """The log in the http block: that of the only L7 listener, otherwise each server block has its own."""
    l7 = [x for x in plan.listeners if x.mode is Mode.L7]
    return tuple(log_directives(l7[0])) if len(l7) == 1 else ()


def _server(at: HttpServer) -> Iterable[Line]:
    return () if shared_log(at.plan) else log_directives(at.listener)


def pool_variable(locations: Iterable[Location]) -> Atom:
    """The variable with the upstream of a request: nginx's own, unless the gRPC module forwards, which has none."""
    lost = any(x.proxy is not None and x.proxy.module.text != PROXY for x in locations)
    return reference(POOL) if lost else Atom("$proxy_host")


class LoggedRoutes:
    """The variables of the log in locations; collects the pool of each route, which a map adds to the log."""

    def __init__(self) -> None:
        self._pools: dict[str, Text] = {}

    @property
    def maps(self) -> tuple[Map, ...]:
        """The map from the route of a request to its pool."""
        entries = tuple(Entry(Literal(name, "key"), pool) for name, pool in self._pools.items())
        return (Map(NONE, text(inline(ROUTE)), reference(POOL), EMPTY, entries),)

    def add(self, listener: Listener, name: str, upstream: Atom | None) -> tuple[Line, ...]:
        """The directives of a location of the route `name`; `upstream` None: it forwards to none."""
        if not listener.logs:
            return ()
        if upstream is not None:
            self._pools[name] = text(inline_upstream(upstream))
        return (Line(_SET, (_ROUTE, text(name))),)


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


ACCESS_LOG = Contributor(server=_server)
