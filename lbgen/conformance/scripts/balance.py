"""Which endpoint gets a request."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from lbgen.conformance.probe import ask
from lbgen.conformance.scripts.stage import get, told_of
from lbgen.runtime.standin import CONTROL, Behaviour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.scripts.stage import Stage


def least_connections(stage: Stage) -> Iterator[str]:
    """A slow endpoint gets fewer requests than a fast one; evenly busy ones share evenly."""
    stage.endpoints.behave("least-0", Behaviour("hang", wait_ms=400))
    try:
        with ThreadPoolExecutor(6) as pool:
            counts = Counter(pool.map(lambda _: told_of(ask(stage.at["web"], get("/least")), "name"), range(60)))
    finally:
        stage.endpoints.behave("least-0", Behaviour())
    if sum(counts.values()) != counts["least-0"] + counts["least-1"] or not counts["least-0"] < 24:
        yield f"of 60 requests, 6 at a time, with one slow endpoint: {dict(counts)}"
    slow = get("/least", (CONTROL, '{"mode": "hang", "wait_ms": 700}'))
    with ThreadPoolExecutor(8) as pool:
        futures = []
        for _ in range(8):
            futures.append(pool.submit(ask, stage.at["web"], slow))
            time.sleep(0.03)
        counts = Counter(told_of(f.result(), "name") for f in futures)
    if counts != Counter({"least-0": 4, "least-1": 4}):
        yield f"8 requests in flight at once: {dict(counts)}, expected 4 and 4"
