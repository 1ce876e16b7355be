"""Traefik's own access log: the fields that are kept, and a line of it as a record in lbgen's schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lbgen.engines.document import Commented
from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.traefik import names
from lbgen.json_types import AccessRecord
from lbgen.plan.model import Mode, Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_KEPT = (
    "StartUTC",
    "entryPointName",
    "RouterName",
    "ServiceName",
    "ServiceAddr",
    "RequestMethod",
    "RequestHost",
    "RequestPath",
    "DownstreamStatus",
    "Duration",
    "OriginDuration",
    "RetryAttempts",
    "DownstreamContentSize",
)
_REQUEST_ID = "request_X-Request-Id"
_PROVIDER = "@file"
_MILLISECOND = 1_000_000  # Traefik's times are nanoseconds
_LONGER = re.compile(r"(\.\d{3})\d*Z$")


def build_access_log(plan: Plan) -> Commented | None:
    """The `accessLog` section; None when no listener has a log."""
    if not any(listener.logs for listener in plan.listeners if listener.mode is Mode.L7):
        return None
    file = names.ACCESS_LOG if plan.metrics is None else METRICS_LOG
    data: dict[str, Data] = {
        "filePath": file,
        "format": "json",
        "bufferingSize": 1000,
        "addInternals": True,  # what middlewares answer: their routers lead to Traefik's own service noop
        "fields": {
            "defaultMode": "drop",
            "names": dict.fromkeys(_KEPT, "keep"),
            "headers": {"defaultMode": "drop", "names": {"X-Request-Id": "keep"}},
        },
    }
    comment = "Requests wait for the disk only when 1000 lines are queued. `lbgen logs` reads these fields."
    if relayed_log(plan):
        comment += f" `lbgen agent` counts them, and copies them to {names.ACCESS_LOG}."
    return Commented(comment, data, apart=True)


def relayed_log(plan: Plan) -> str:
    """The access log, where the agent writes it: Traefik has one log, which the agent counts and frees."""
    return names.ACCESS_LOG if plan.metrics is not None and is_written(plan) else ""


def is_written(plan: Plan) -> bool:
    """Whether requests are logged; Traefik logs no connections of L4 listeners."""
    return any(each.access_log for each in plan.listeners if each.mode is Mode.L7)


def read_line(line: Mapping[str, Any]) -> AccessRecord | None:
    """The record; None for a line that is no request on a listener."""
    if "RouterName" not in line and "DownstreamStatus" not in line:
        return None
    tried = "ServiceAddr" in line
    path, _, _ = str(line.get("RequestPath", "")).partition("?")
    return {
        "time": _LONGER.sub(r"\1Z", str(line.get("StartUTC", ""))),
        "listener": names.listener_name(str(line.get("entryPointName", ""))),
        "route": names.route_of(str(line.get("RouterName", "")), str(line.get("entryPointName", ""))),
        "pool": _pool(line.get("ServiceName", "")) if tried else "",
        "endpoint": line.get("ServiceAddr", ""),
        "method": line.get("RequestMethod", ""),
        "host": line.get("RequestHost", ""),
        "path": path,
        "status": line.get("DownstreamStatus", 0),
        "duration_ms": _milliseconds(line.get("Duration", 0)),
        "upstream_ms": _milliseconds(line.get("OriginDuration", 0)) if tried else None,
        "tries": line.get("RetryAttempts", 0) + 1 if tried else 0,
        "bytes": line.get("DownstreamContentSize", 0),
        "request_id": line.get(_REQUEST_ID, ""),
    }


def _pool(service: object) -> str:
    """The topology's name of a service, without what lbgen and the provider add."""
    return str(service).removesuffix(_PROVIDER).partition(names.MARK)[0]


def _milliseconds(nanoseconds: int) -> float:
    return round(nanoseconds / _MILLISECOND, 3)
