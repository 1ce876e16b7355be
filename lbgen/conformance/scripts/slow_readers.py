"""Clients and endpoints that stop reading."""

from __future__ import annotations

import json
from collections.abc import Iterator

from lbgen.conformance.scripts.context import ScriptContext, get
from lbgen.conformance.scripts.topology_timeouts import deaf_client, slow_reader, stuck_upload
from lbgen.records import replace
from lbgen.runtime.standins.http1 import CONTROL

_SIZE = 24 << 20  # bytes, more than the buffers of this host's kernel hold


def client_stops_reading(ctx: ScriptContext) -> Iterator[str]:
    """A client that reads nothing for the idle time (`idle_ms`) is given up; one that goes on before is not."""
    idle = ctx.params["idle_ms"]
    yield from deaf_client(_asking(ctx, "/short", within_ms=(0, idle + 1300), early_ms=idle * 0.36))


def client_pauses(ctx: ScriptContext) -> Iterator[str]:
    """A client that reads nothing for less than the idle time (5 s) gets all, whatever the time of its own body."""
    yield from slow_reader(_asking(ctx, "/", within_ms=(0, 5000)), 1500, whole=True)


def endpoint_stops_reading(ctx: ScriptContext) -> Iterator[str]:
    """An upload that its endpoint reads nothing of is given up after the idle time and that of clients (700 ms)."""
    control = (CONTROL, json.dumps({"mode": "deaf"}))
    request = replace(get(ctx.params["target"], control), listener=ctx.params["listener"])
    params = {"request": request, "size": _SIZE, "within_ms": (300, 2000), "patience": 8}
    yield from stuck_upload(replace(ctx, params=params))


def _asking(ctx: ScriptContext, target: str, **params: object) -> ScriptContext:
    control = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": _SIZE}))
    request = replace(get(target, control), listener=ctx.params.get("listener", "web"))
    return replace(ctx, params={"request": request, "size": _SIZE, **params})
