"""Clients that do not read what they asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.conformance.scripts.stage import get
from lbgen.conformance.scripts.topology import away, deaf_client, stuck_upload
from lbgen.runtime.standins.http1 import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage

_SIZE = 24 << 20  # bytes, more than the buffers of this host's kernel hold


def client_stops_reading(stage: Stage) -> Iterator[str]:
    """A client that reads nothing for the idle time (`idle_ms`) is given up; one that goes on before is not."""
    idle = stage.params["idle_ms"]
    yield from deaf_client(_asking(stage, "/short", within_ms=(0, idle + 1300), early_ms=idle * 0.36))


def client_pauses(stage: Stage) -> Iterator[str]:
    """A client that reads nothing for less than the idle time (5 s) gets all, whatever the time of its own body."""
    yield from away(_asking(stage, "/", within_ms=(0, 5000)), 1500, whole=True)


def endpoint_stops_reading(stage: Stage) -> Iterator[str]:
    """An upload that its endpoint reads nothing of is given up after the idle time and that of clients (700 ms)."""
    told = (CONTROL, json.dumps({"mode": "deaf"}))
    request = replace(get(stage.params["target"], told), listener=stage.params["listener"])
    params = {"request": request, "size": _SIZE, "within_ms": (300, 2000), "patience": 8}
    yield from stuck_upload(replace(stage, params=params))


def _asking(stage: Stage, target: str, **params: object) -> Stage:
    control = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": _SIZE}))
    request = replace(get(target, control), listener=stage.params.get("listener", "web"))
    return replace(stage, params={"request": request, "size": _SIZE, **params})
