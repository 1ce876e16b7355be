"""Clients that do not read what they asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.conformance.scripts.stage import get
from lbgen.conformance.scripts.topology import deaf_client
from lbgen.runtime.standin import CONTROL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage

_SIZE = 24 << 20  # bytes, more than the buffers of this host's kernel hold


def client_stops_reading(stage: Stage) -> Iterator[str]:
    """A client that reads nothing for the idle time (700 ms) is given up; one that goes on before is not."""
    control = (CONTROL, json.dumps({"mode": "fixed", "body": "x", "size": _SIZE}))
    request = replace(get("/short", control), listener="web")
    params = {"request": request, "size": _SIZE, "within_ms": (0, 2000), "early_ms": 250}
    yield from deaf_client(replace(stage, params=params))
