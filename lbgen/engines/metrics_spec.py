"""What `lbgen agent` needs to count the requests of an engine and to serve the counts: the file metrics.json."""

from __future__ import annotations

import json
import re
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from lbgen.engines.api import Engine, RenderedFile
from lbgen.plan.model import Plan

FILE = "metrics.json"
LOG = "metrics.log"  # one line per request; the agent frees what it has counted
LOG_FD = 3  # of an engine that logs to open files alone, its start opens LOG as this one
FORMAT = 1
L4_MARK = '{"l4":'  # what a line about a connection of an L4 listener begins with
_NO_ENDPOINT = ("", "-", "-:-", "<NOSRV>")
_SUFFIX = re.compile("[~@:]")  # what engines add to the name of a pool
# RFC 9110, 9.3, and RFC 5789. Any other method that no route names is counted as `other`.
METHODS = ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")


class CountedListener(Struct, frozen=True):
    """A listener; `port` 0: its connections are not counted (UDP)."""

    name: str
    address: str
    port: int


class CountedPool(Struct, frozen=True):
    """A pool; `endpoints` are (name in the topology, address that the engine has), `judged`: it has checks."""

    name: str
    judged: bool
    endpoints: tuple[tuple[str, str], ...]


class MetricsSpec(Struct, frozen=True):
    """`relay`: a file that gets the lines of the log too, "" = none; for an engine that has one log only.
    `admin_port` is where the engine reports the state of endpoints, None = nowhere."""

    stack: str
    engine: str
    version: str
    address: str
    port: int
    relay: str
    listeners: tuple[CountedListener, ...]
    routes: tuple[str, ...]
    pools: tuple[CountedPool, ...]
    methods: tuple[str, ...]
    admin_port: int | None
    log: str = LOG
    format: int = FORMAT


@runtime_checkable
class OneLog(Protocol):
    """An engine that has one log only, so that the agent writes the access log; beside `lbgen.engines.api.Engine`."""

    def relayed_log(self, plan: Plan) -> str:
        """The access log that gets the lines of the metrics log; "" = the engine writes it, or there is none."""
        ...


class ConnectionRecord(Struct, frozen=True):
    """A connection of an L4 listener that had an endpoint. Bytes `received` from the client and `sent` to it."""

    listener: str
    pool: str
    duration_ms: float
    received: int
    sent: int


def l4_format(listener: str, **values: str) -> str:
    """A line of the metrics log about a connection, the same for all engines but the engine's variables in `values`:
    pool, endpoint, seconds or milliseconds, received, sent."""
    fields = ",".join(f'"{key}":"{value}"' for key, value in values.items())
    return f'{L4_MARK}"{listener}",{fields}}}'


def connection_record(line: str) -> ConnectionRecord | None:
    """The connection that such a line is about; None for one that had no endpoint. Raises ValueError, LookupError."""
    found = json.loads(line)
    if found["endpoint"] in _NO_ENDPOINT:
        return None
    took = float(found["seconds"]) * 1000 if "seconds" in found else float(found["milliseconds"])
    pool = _SUFFIX.split(found["pool"])[0]
    return ConnectionRecord(found["l4"], pool, took, int(found["received"]), int(found["sent"]))


def metrics_files(plan: Plan, target: Engine, version: str) -> tuple[RenderedFile, ...]:
    """The file for the agent; nothing where the topology has no metrics."""
    if plan.metrics is None:
        return ()
    rules = (rule for listener in plan.listeners for table in listener.hosts for rule in table.rules)
    spec = MetricsSpec(
        stack=plan.name,
        engine=target.name,
        version=version,
        address=plan.metrics.address,
        port=plan.metrics.port,
        relay=target.relayed_log(plan) if isinstance(target, OneLog) else "",
        listeners=tuple(
            CountedListener(each.name, each.address, each.port if each.protocol == "tcp" else 0)
            for each in plan.listeners
        ),
        routes=tuple(route.name for route in plan.routes),
        pools=tuple(
            CountedPool(
                pool.name,
                pool.active is not None or pool.passive is not None,
                tuple((each.written or each.authority, each.authority) for each in pool.endpoints),
            )
            for pool in plan.pools
        ),
        methods=tuple(sorted({*METHODS, *(method for rule in rules for method in rule.match.methods)})),
        admin_port=plan.admin_port,
    )
    text = json.dumps(msgspec.to_builtins(spec), indent=1) + "\n"
    return (RenderedFile(FILE, text, ("metrics",) * text.count("\n")),)
